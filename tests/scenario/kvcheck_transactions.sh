#!/usr/bin/env bash
# kvcheck_transactions: a transaction of which a crash has left a part counts for kvcheck as it does
# for serverk: not at all; within one data file, and in several.
. "$(dirname "$0")/lib.sh"
cd "$MQKV_TEST_DIR" || exit 2

kvcheck() {
    "$MQKV_BUILD/kvcheck" "$@"
}

# cut FILE KEY...: zeros from the first record on that has one of the keys with the value "new".
cut() {
    python3 - "$@" <<'END'
import sys
file = open(sys.argv[1], "r+b")
data = file.read()
places = (data.find(key.encode() + b"new") for key in sys.argv[2:])
start = min(at for at in places if at > 0) - 20  # a record's header
while start % 8 != 0:
    start -= 1  # with the part of a transaction
file.seek(start)
file.write(bytes(len(data) - start))
END
}

# values DIR: sets values to what a server that is started from DIR has of the keys.
values() {
    server_dir=$1
    start_server
    values=$(for key in "${keys[@]}"; do client get "$key" && echo ' '; done | tr -d '\n')
    stop_server
}

# live DIR: the values of the keys that are live in a dump.
live() {
    kvcheck --dump "$1" 2>/dev/null | awk '$3 == "live" { print $7, $8 }' | sort |
        awk '{ printf "%s ", $2 }'
}

# forget_index: no shared index is taken over, as after a power failure.
forget_index() {
    rm -f /dev/shm/mqkv.store.*."$(printf %x "$(stat -c %i "$server_dir")")"*
}

# In one data file.
keys=(a b c d)
server_dir=one
start_server -d 1 --sync none
for key in "${keys[@]}"; do client put "$key" old >/dev/null; done
client transact -- put a new -- put b new -- put c new -- put d new >/dev/null
kill_server
forget_index
check_status 0 'a transaction that is whole' kvcheck one
check_equal 0 "$(grep -c transaction <<<"$output")" 'is worth no word'
check_equal 'new new new new ' "$(live one)" 'and counts'
cut one/data.0000 d
check_status 0 'one that lacks its last record is no damage' kvcheck one
check_match '^note: one/data.0000: offset [0-9]+: the transaction is not whole: .* next open cuts' \
    "$output" 'but a note says what a start would do'
check_equal 'old old old old ' "$(live one)" 'a dump shows nothing of it as live'
check_match ' dead put .* a new' "$(kvcheck --dump one 2>/dev/null)" 'but as dead'
check_status 1 'salvage leaves it out, and something is lost then' kvcheck --salvage one.saved one
check_match '^lost: .* a transaction that is not whole, and what stands behind it' "$output" \
    'as it says'
values one.saved
check_equal 'old old old old ' "$values" 'what was before counts'
check_status 4 '--resize wants a start first' kvcheck --resize 2 --to one.sized one
values one
check_equal 'old old old old ' "$values" 'as for serverk'

# In several data files: the part of one of them is missing.
keys=({a..t}) # so many that some are in each file
all_old=$(printf 'old %.0s' "${keys[@]}")
server_dir=two
start_server -d 2 --sync none
for key in "${keys[@]}"; do client put "$key" old >/dev/null; done
blocks=()
for key in "${keys[@]}"; do blocks+=(-- put "$key" new); done
client transact "${blocks[@]}" >/dev/null
client put later yes >/dev/null
kill_server
forget_index
cp -r two whole
check_status 0 'all parts are there' kvcheck whole
check_equal 0 "$(grep -c 'not whole' <<<"$output")" 'is worth no word, too'
# The file without "later" loses its part.
last=0
grep -q later two/data.0000 && last=1
cut "two/data.000$last" "${keys[@]}"
check_status 0 'a part that is missing is no damage' kvcheck two
check_match "^note: two/data.000$((1 - last)): offset [0-9]+: the transaction is not whole" \
    "$output" 'but a note'
check_equal "$all_old" "$(live two)" 'a dump shows nothing of it as live'
check_status 1 'salvage leaves it out' kvcheck --salvage two.saved two
values two.saved
check_equal "$all_old" "$values" 'what was before counts'
values two
check_equal "$all_old" "$values" 'as for serverk'
values whole
check_equal "${all_old//old/new}" "$values" 'which has all of it where all parts are'

# Where damage has taken a part, the others were acknowledged, and stay.
cp -r whole damaged
rm damaged/data.000$last damaged/data.*.index 2>/dev/null
check_status 1 'a file that is missing' kvcheck --salvage damaged.saved damaged
check_equal yes "$([ "$(live damaged.saved | grep -c new)" -gt 0 ] && echo yes)" \
    'takes no part of another one with it'
