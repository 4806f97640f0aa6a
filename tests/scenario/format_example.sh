#!/usr/bin/env bash
# format_example: the commands of the worked example of docs/FORMAT.md print what the page shows,
# on a store that they make, and on the bytes of the page
. "$(dirname "$0")/lib.sh"

page=$(realpath "$library_dir/../../docs/FORMAT.md")
example=$(sed -n '/^## A worked example$/,/^## Changing/p' "$page")
cd "$MQKV_TEST_DIR" || exit 2
export MQKV_QUEUE=$server_queue PATH=$MQKV_BUILD:$PATH

# shown COMMAND: what the page shows below that command.
shown() {
    awk -v command="    \$ $1" '
        inside && !/^    [^$]/ { exit }
        inside { print substr($0, 5) }
        $0 == command { inside = 1 }' <<<"$example"
}

words=$(wc -w <"$page")
check_equal yes "$([ "$words" -le 4000 ] && echo yes)" "the page has $words of 4,000 words"
commands=$(sed -n 's/^    \$ //p' <<<"$example")
check_equal 15 "$(wc -l <<<"$commands")" "its example has all its commands"

# The program
sed -n '/^    #include <stdio.h>/,/^    }/s/^    //p' <<<"$example" >xxh3.c
# shellcheck disable=SC2016 # what stands in backquotes on the page
build=$(sed -n 's/.*`\(cc -o xxh3[^`]*\)`.*/\1/p' <<<"$example")
check_status 0 "the program is built as the page says: $build" bash -c "$build"

# A store that they make
eval "$(sed -n 1,2p <<<"$commands")" 2>"$server_log"
server=$!
put=$(sed -n 3p <<<"$commands")
check_equal "$(shown "$put")" "$(eval "$put")" "$put"
check_equal "kill \$!; wait" "$(sed -n 4p <<<"$commands")" "and a clean stop"
kill "$server"
wait "$server"

# blanked DUMP PLACE+BYTES...: the dump with zeros at these places.
blanked() {
    local place
    xxd -r - blanked <<<"$1"
    for place in "${@:2}"; do
        head -c "${place#*+}" /dev/zero |
            dd of=blanked bs=1 seek=$((${place%+*})) conv=notrunc status=none
    done
    xxd -a -g 8 blanked
    rm blanked
}
# What is random: seed, salt, notes, number of the chapter, checksums; and the file of the key.
dump=$(grep '^xxd .*/data.0000$' <<<"$commands")
index=$(grep '^xxd .*/data.0000.index$' <<<"$commands")
last=$(tail -n 1 <<<"$commands")
file=data.0000
[ "$(xxd -p -s 0x1004 -l 1 kv/data.0000)" = 06 ] || file=data.0001
random=(16+4 24+24 0x218+8 0x418+8 0x600+16 0x618+8 0x800+16 0x818+8 0xe00+8 0xff8+8 0x1000+4)
check_equal "$(blanked "$(shown "$dump")" "${random[@]}")" \
    "$(blanked "$(eval "${dump/data.0000/$file}")" "${random[@]}")" "$dump: the same bytes"
random=(12+4 16+8 72+8 92+4 100+8)
check_equal "$(blanked "$(shown "$index")" "${random[@]}")" \
    "$(blanked "$(eval "${index/data.0000/$file}")" "${random[@]}")" "$index: the same bytes"
check_equal "$(shown "$last" | sed "s/data.0000/$file/")" "$(eval "$last")" "$last"

# The extents of the page: their checksums, by its rules
salt=0xcdb570057c3e66f9
low_half() { # SEED OFFSET BYTES
    local sum
    sum=$(./xxh3 "$(printf '%#x' "$1")" extents "$2" "$3")
    echo "0x${sum:8}"
}
field() { # OFFSET BYTES
    echo "0x$(xxd -e -g "$2" -s "$1" -l "$2" extents | cut -d ' ' -f 2)"
}
checks_of_extents() { # VALUE's letter, offset of the value pointer
    local rest
    head -c 65536 /dev/zero | tr '\0' "$1" | dd of=extents bs=16 seek=259 conv=notrunc status=none
    rest=$(($(field 0x101c 4) | $(field 0x1028 4) << 32))
    echo $(($(field 0x1000 4) == $(low_half $((salt ^ 0x1000)) 0x1004 20))) \
        $(($(field 0x1018 4) == ($(low_half $((salt ^ 0x1018 ^ rest)) 0x102c 65540) ^
            $(low_half $((salt ^ 0x1018)) 0x1020 8)))) \
        $(($(field "$2" 4) == $(low_half $((salt ^ $2)) $(($2 + 4)) 28)))
}
dumps=$(sed -n '/^### Extents/,/^### Chapters/s/^    \(0\)/\1/p' "$page")
xxd -r - extents <<<"$(head -n 6 <<<"$dumps")"
check_equal "1 1 1" "$(checks_of_extents v 0x11030)" "the first extent, its content, what places it"
xxd -r - extents <<<"$(tail -n +7 <<<"$dumps")"
check_equal "1 1 1" "$(checks_of_extents w 0x11070)" "and with another content"

# The bytes of the page
rm kv/data.000*
for command in "$dump" "$index"; do
    xxd -r - "${command##* }" <<<"$(shown "$command")"
done
while read -r command; do
    check_equal "$(shown "$command")" "$(eval "$command")" "$command"
done < <(grep -E '^(xxd|\./xxh3|printf|echo) ' <<<"$commands")
