#!/usr/bin/env bash
# clientk_commands: each command of the shell has the answer and the exit code that clientk(1) says.
. "$(dirname "$0")/lib.sh"

start_server --max-value 65536

# answers STATUS EXPECTED ARGUMENT...: what it prints to stdout and how it exits.
answers() {
    local status=$1 expected=$2
    shift 2
    check_status "$status" "clientk $* exits $status" client "$@"
    check_equal "$expected" "$output" "clientk $* prints \"$expected\""
}

# complains STATUS PATTERN ARGUMENT...: nothing on stdout, the pattern on stderr.
complains() {
    local status=$1 pattern=$2
    shift 2
    check_status "$status" "clientk $* exits $status" client "$@"
    check_equal "" "$output" "clientk $* prints nothing"
    check_match "$pattern" "$errors" "clientk $* says why"
}

answers 0 OK put name Ada
answers 0 Ada get name
answers 0 OK exists name
complains 1 'get nobody: NOT FOUND' get nobody
complains 1 'NOT FOUND' exists nobody
complains 1 'NOT FOUND' del nobody
answers 0 OK del name
complains 1 'NOT FOUND' get name

answers 0 OK put words one two three
answers 0 'one two three' get words
answers 0 OK put empty ''
answers 0 '' get empty
answers 0 OK put dash -- -
answers 0 - get dash
answers 0 OK set -- -k -v
answers 0 -v get -- -k
answers 0 OK put number -5
answers 0 OK put far x --expires-at 18446744073709551615
answers 0 '9223372036854775807 ms' ttl far
answers 0 OK del far

complains 1 'exists' put words x --if-absent
complains 1 'NOT FOUND' put nobody x --if-present
answers 0 OK put words four --if-present
version=$(client --format json get words | sed 's/.*"version":\([0-9]*\).*/\1/')
complains 1 'version' put words x --if-version $((version + 1))
answers 0 OK put words five --if-version "$version"
answers 0 five get words
check_match '^version [0-9]+, 4 bytes, expires never' "$(client get --meta words)" \
    'get --meta shows all'

answers 0 1 incr counter
answers 0 6 incr counter 5
answers 0 4 decr counter 2
answers 0 -6 add counter -10
complains 1 'bounds' incr counter 100 --max 10
complains 1 'bounds' decr counter --min -6
answers 0 -6 get counter
answers 0 OK put most 9223372036854775807
complains 1 'overflow: the value is 9223372036854775807, ' incr most
complains 1 'overflow' incr most --max 10
complains 1 'bounds' add most -1 --min 9223372036854775807
answers 0 9223372036854775807 get most
complains 1 'NOT FOUND' add nobody 1 --no-create
answers 0 11 add fresh 1 --initial 10
complains 1 'decimal' incr words

answers 0 8 append words ' six'
answers 0 'five six' get words
answers 0 'five six' getset words seven
complains 1 'no old value' getset newcomer first
answers 0 first get newcomer

answers 0 never ttl words
answers 0 OK touch words 1h
check_match '^3[0-9]{6} ms$' "$(client ttl words)" 'ttl tells the milliseconds left'
answers 0 OK touch words 1.5h
check_match '^5[0-9]{6} ms$' "$(client ttl words)" 'a time may have a fraction'
answers 0 OK touch words 2w
check_match '^1209[0-9]{6} ms$' "$(client ttl words)" 'weeks are a unit'
complains 2 '1h, 7d or 2w' touch words soon
complains 2 '1h, 7d or 2w' put words x --ttl soon
answers 0 OK persist words
complains 2 'persist KEY' touch words never
answers 0 never ttl words
answers 0 OK put brief x --ttl 1ms
wait_until 20 eval '! client get brief >/dev/null 2>&1'
complains 1 'NOT FOUND' get brief

answers 0 OK sync
check_match '^OK [0-9.]+ [nmu]?s$' "$(client ping)" 'ping tells the time'
check_match '^100 round trips: min .* max ' "$(client ping -c 100)" 'ping -c sums up'
check_match '^count,min_us,.*,max_us 5,[0-9.]*,[0-9.,]*$' \
    "$(client --format csv ping -c 5 | tr '\n' ' ' | sed 's/ $//')" 'in CSV with columns'
check_equal 'key,value,version,expiry_ms' "$(client --format csv scan no-key-begins-so)" \
    'a scan without entries has the header, too'
check_equal 'change,key,value,version,expiry_ms,position' \
    "$(timeout -s INT 3 "$MQKV_BUILD/clientk" -m "$server_queue" --format csv \
        watch no-key-begins-so 2>/dev/null)" 'so has a watch without changes'
check_match '"command":"priority","status":"ok","number":5}' \
    "$(printf 'priority 5\npriority\n' | client --format json batch - 2>/dev/null)" \
    'priority tells itself in JSON'
check_match 'operations' "$(client stats)" 'stats has a section of operations'
check_equal 2 "$(client top -c 2 -i 100 | grep -c 'per second')" 'top looks twice'

answers 0 words scan words --keys
answers 0 'words seven' scan words
answers 0 1 scan words --count
answers 0 '' scan nothing-like-it

# Several keys: an answer each, in their order, as lines of a batch have.
put_sample() {
    client put k1 one >/dev/null
    client put k2 'two
lines' >/dev/null
    client put k3 'NOT FOUND' >/dev/null
    client put k4 'ERROR io: no' >/dev/null
}
put_sample
answers 1 'one
"two\nlines"
"NOT FOUND"
"ERROR io: no"
NOT FOUND
one' get k1 k2 k3 k4 nobody k1
check_equal "" "$errors" 'and nothing on stderr'
answers 0 'NOT FOUND' get k3
answers 1 'one
NOT FOUND' get k1 nobody --together
check_equal 'command,key,status,value,number,version,expiry_ms,error
exists,k1,ok,,,V,0,
exists,nobody,not_found,,,,,key not found
exists,k2,ok,,,V,0,' "$(client --format csv exists k1 nobody k2 | sed 's/,,[0-9]\+,0,$/,,V,0,/')" \
    'in CSV each answer has its key'
answers 0 'OK
OK' exists k1 k2
answers 1 'OK
NOT FOUND
OK' del k1 nobody k2
complains 1 'NOT FOUND' get k1
answers 0 'OK
OK' del k3 k4
put_sample
check_match '^OK NOT FOUND OK OK $' \
    "$(printf 'DEL k1 nobody k2\nEXISTS k3\n' | client | tr '\n' ' ')" \
    'a line of a batch has an answer for each key, too'
complains 2 'key has 0 bytes' del k3 '' k4
answers 0 'OK
OK' exists k3 k4
complains 2 '--if-version is for one key' del k3 k4 --if-version 1
complains 2 'cannot be|not both' del k3 --prefix k
mapfile -t many < <(seq -f 'many:%g' 1 300)
seq -f 'PUT many:%g x' 1 300 | client batch -q - 2>/dev/null
messages() {
    client stats operations | awk '$1 == "messages" { print $2 }'
}
before=$(messages)
answers 0 "$(yes OK | head -300)" --direct off exists "${many[@]}"
check_status 0 'many keys travel together' test $(($(messages) - before)) -lt 30
answers 0 "$(yes OK | head -300)" del "${many[@]}"

# What is wrong with a command is said before anything is sent: exit 2.
complains 2 'did you mean get\?' gte name
complains 2 'usage: put KEY VALUE' put name
complains 2 'too many' ttl a b
answers 0 "$(client -V)" get a -V
complains 2 'key has 0 bytes' put '' x
complains 2 'key has 65536 bytes' get "$(head -c 65536 /dev/zero | tr '\0' k)"
complains 2 "unknown option '--if-absend'; did you mean --if-absent" put a b --if-absend
complains 2 'prompt only' quit
complains 2 'mqkv has no keys: scan' keys '*'
complains 2 'mqkv has no flushall: ' flushall
complains 2 'mqkv has no mget: get KEY' help mget
complains 2 'at the prompt and in batches only' priority 3
complains 2 "no section 'nosuch'; stats alone shows all: server, .*, sessions, .*$" stats nosuch
complains 2 'is not text, raw, json or csv' --format xml get a
complains 2 'exclude each other' put a b --ttl 5s --keep-ttl
complains 2 'queue name' -m noslash get a
complains 2 '65536 bytes.*serverk --max-value raises' \
    put big "$(head -c 70000 /dev/zero | tr '\0' v)"

# What a terminal would obey reaches it in raw format only.
answers 0 OK -e put 'c\xc2\x9b' 'x\x7f\xc2\x85'
controls='[\x7f-\x9f]'
for format in text json csv; do
    client --format "$format" scan 'c' >"$MQKV_TEST_DIR/scanned"
    check_equal 0 "$(LC_ALL=C grep -caP "$controls" "$MQKV_TEST_DIR/scanned")" \
        "$format has no DEL or C1"
done
client --format raw scan 'c' >"$MQKV_TEST_DIR/scanned"
check_equal 1 "$(LC_ALL=C grep -caP "$controls" "$MQKV_TEST_DIR/scanned")" \
    'raw has the bytes as they are'
check_equal '{"key":"c\u009b","value":"x\u007f\u0085"' \
    "$(client --format json scan c | grep -o '{"key":"c.u009b","value":"[^"]*"')" \
    'and JSON the same text escaped'
check_match 'c.xc2.x9b[^ ]* NOT FOUND|"c.xc2.x9b!": NOT FOUND' \
    "$(client -e get 'c\xc2\x9b!' 2>&1)" 'as messages do'

# Binary, through arguments and pipes.
head -c 60000 /dev/urandom >"$MQKV_TEST_DIR/random"
check_status 0 'a value comes from stdin' client put random - <"$MQKV_TEST_DIR/random"
check_equal "$(sha256sum <"$MQKV_TEST_DIR/random")" "$(client get random | sha256sum)" \
    'and goes to stdout byte for byte'
answers 0 OK -e put 'k\0\xff' 'v\n\0'
check_equal '76 0a 00' "$(client -e get 'k\0\xff' | od -An -tx1 | xargs)" '-e decodes escapes'
check_status 2 'a bad escape is refused' client -e put 'k\q' v
for spelling in -e --escapes --escape --es; do
    check_status 0 "it may be spelled $spelling" \
        client put 'spelled\x00' "by ${spelling//-/}" "$spelling"
    check_equal "by ${spelling//-/}" "$(client get -e 'spelled\x00')" 'and means the same key'
done
check_status 2 'but not within another word' client get -ve 'spelled\x00'
check_match 'a word of its own' "$errors" 'which is said'
check_status 2 'nor as the value of an option' client scan --limit 1 'spelled' -m -e
client -e del 'spelled\x00' >/dev/null
check_equal '"k\0\xff" "v\n\0"' "$(client -e scan 'k\0')" 'binary is printed escaped'

# A reader that leaves, and a full disk.
client scan | head -n 1 >/dev/null
check_equal 0 "${PIPESTATUS[1]}" 'a reader may leave early'
client get words >/dev/full 2>"$MQKV_TEST_DIR/errors"
check_equal 4 $? 'an answer that cannot be written is a failure'

check_status 0 '-h shows help' client -h
check_match 'doctor' "$output" 'which lists the commands'
check_status 0 'help COMMAND shows options' client help put
check_match '--if-absent' "$output" 'all of them'
check_status 0 'put --help does too' client put --help
check_match '--if-absent' "$output" 'all of them'
check_match '^clientk [0-9]' "$(client -V)" '-V shows the version'
check_equal "seven" "$(MQKV_QUEUE=$server_queue "$MQKV_BUILD/clientk" get words)" \
    'MQKV_QUEUE names the queue'

check_status 0 'doctor finds all well' client doctor
check_match "served by process $server_pid" "$output" 'and the server'

# Formats: a command has one, or says so
for format in json csv; do
    for command in doctor metrics "dump -"; do
        # shellcheck disable=SC2086 # a command's words
        check_status 2 "$command has no $format" client --format "$format" $command
        check_match "it has no $format, but text, raw" "$errors$output" "and says what it has"
    done
done
for command in "stats files" "top --count 1"; do
    # shellcheck disable=SC2086
    check_status 2 "$command has no csv" client --format csv $command
    # shellcheck disable=SC2086
    check_status 0 "$command has json" client --format json $command
    check_status 0 "which can be read" python3 -m json.tool - <<<"$output"
done
for command in sessions slow bigkeys "config get" "queue length q" "queue list q" count; do
    # shellcheck disable=SC2086
    check_status 0 "$command has csv" client --format csv $command
    check_match ',|^command' "$output" "with columns"
    # shellcheck disable=SC2086
    check_status 0 "$command has json" client --format json $command
done

# Hints, and what is told where there is nothing to tell
check_match "queue put.*\|dead NAME \.\.\.$" "$(client -h)" "no line of the help is cut"
check_match "clear --yes" "$(client flushall 2>&1)" "flushall is clear"
check_status 0 "a pattern" client scan "*none*"
check_match "a prefix is no pattern; scan --match" "$errors" "is none, and that is said"
check_match "a prefix is no pattern" "$(client count "no?e" 2>&1)" "by count, too"
for key in city:1 city:2 cities "c*ty" zone:c; do client put "$key" "of $key" >/dev/null; done
check_equal $'cities\ncity:1\ncity:2' "$(client scan --keys --match 'cit*' | sort)" "a pattern"
check_equal $'city:1 "of city:1"\nzone:c "of zone:c"' "$(client scan --match '*:[^2]' | sort)" \
    "of what stands at the end"
check_equal '"c*ty"' "$(client scan --keys --match 'c\*ty')" "a star that stands for itself"
check_equal 2 "$(client scan --count --match 'city:?')" "patterns count"
check_equal 1 "$(client scan --keys --limit 1 --match '*:*' | wc -l)" "what matches is limited"
check_equal 'city:2' "$(client scan city: --keys --match '*2')" "of the keys that begin so"
client put "$(printf 'a%.0s' {1..50000})" x >/dev/null
almost_matches() {
    client scan --match "*$(printf 'a%.0s' {1..2000})b"
}
check_status 4 "a pattern that takes too long" almost_matches
check_match "takes too long to compare" "$errors" "is told"
client del --prefix aaaa >/dev/null
check_status 2 "no pattern" client scan --match
check_status 0 "another prefix" client scan none
check_equal "" "$errors" "has no such hint"
check_match "^no slow requests" "$(client slow)" "slow has nothing to tell"
check_match "^no keys were asked for: of 0 " "$(client hotkeys -t 100ms)" "nor have hotkeys"
check_status 1 "a session that is not there" client kill 99999
client -e put 'b\0\xff' "$(printf '%09999d' 1)" >/dev/null
check_match '"b\\0\\xff"$' "$(client bigkeys)" "bigkeys spells a key as scan does"
check_match '"b\\0\\xff"$' "$(client scan --keys)" "so that it can be pasted"
check_match "  up [0-9]+s, " "$(client top --count 1)" "top tells times as durations"

# A queue that refuses a user names him, and the group that it lets in
if [ "$(id -u)" = 0 ] && [ -e "/dev/mqueue$server_queue" ]; then
    as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
    chmod 0620 "/dev/mqueue$server_queue"
    cp "$MQKV_BUILD/clientk" "$MQKV_TEST_DIR/clientk"
    chmod 0755 "$MQKV_TEST_DIR"
    check_status 4 "who may not send" as_nobody "$MQKV_TEST_DIR/clientk" -m "$server_queue" get a
    check_match "user root and group root: usermod -aG root nobody" "$errors" "is told of the group"
fi
