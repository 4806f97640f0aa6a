#!/usr/bin/env bash
# clientk_batch: batches answer every line in order, go on after bad ones, and tell where they are.
. "$(dirname "$0")/lib.sh"

start_server
cd "$MQKV_TEST_DIR" || exit 2

cat >mixed <<'END'
# a comment, and an empty line

PUT a 1 2 3
put "b c" "x\n\x00\xff"   # binary
GET a
GET "b c"
GET nobody
BOGUS
GET
PUT x "unclosed
INCR n 5
INCR a
PUT empty ""
GET empty
GET a --frobnicate
END
cat >mixed.expected <<'END'
OK
OK
1 2 3
"x\n\0\xff"
NOT FOUND
ERROR usage: unknown command 'BOGUS'; help lists all
ERROR usage: too few arguments; usage: get KEY...
ERROR usage: column 7: this quote is never closed
5
ERROR not_a_number: the value is not a decimal integer
OK
""
ERROR usage: unknown option '--frobnicate': put -- before words that begin with a dash
END
check_status 2 'a batch with bad lines exits 2' client batch mixed
check_equal "$(cat mixed.expected)" "$output" 'each line has its answer'
check_match '^clientk: mixed:8: unknown command' "$errors" 'a bad line is reported with its place'
check_match '^clientk: mixed:10: column 7' "$errors" 'and its column'
check_match '^clientk: mixed:12: incr a: ' "$errors" 'so is a failed one'
check_match '^clientk: 13 commands in .* 7 done, 2 not found or condition not met, 4 failed' \
    "$errors" \
    'the summary counts'

client del n >/dev/null
check_status 2 'batch - reads stdin' client batch - <mixed
check_equal "$(cat mixed.expected)" "$output" 'with the same answers'
check_match '^clientk: stdin:8: ' "$errors" 'and stdin as the place'
client del n >/dev/null
check_status 2 'so does clientk without a command' client <mixed
check_equal "$(cat mixed.expected)" "$output" 'with the same answers'

check_status 2 '--bail stops' client batch --bail mixed
check_equal 6 "$(wc -l <<<"$output")" 'at the first bad line'
check_match 'stopped before the end' "$errors" 'and says so'
check_status 2 '--quiet prints no answers' client batch --quiet mixed
check_equal '' "$output" 'none'

check_status 2 'an option of clientk itself is none of a line' \
    client batch - <<<'get a --timeout 5s'
check_match "stdin:1: '--timeout' is an option of clientk itself: give it when clientk starts" \
    "$errors" 'and the error says where it goes'

printf 'PUT crlf 1\r\nGET crlf\r\nGET last' >crlf
check_status 1 'CRLF and a last line without newline are fine' client batch crlf
check_equal $'OK\n1\nNOT FOUND' "$output" 'the CR is no part of the value'

# A pipe gets each answer at once, not at its end.
coproc client
# shellcheck disable=SC2154  # COPROC is set by coproc
printf 'PUT talk 1\nGET talk\n' >&"${COPROC[1]}"
read -r -t 20 first <&"${COPROC[0]}"
read -r -t 20 second <&"${COPROC[0]}"
check_equal 'OK 1' "$first $second" 'a conversation through pipes'
talker=$COPROC_PID
eval "exec ${COPROC[1]}>&-"
wait "$talker"
check_equal 0 $? 'which ends with its input'

# A signal ends a batch that waits for lines, whichever thread the signal comes to.
mkfifo lines answer_pipe
for threads in 1 3; do
    exec_client batch -n "$threads" - <lines >"interrupted.$threads" 2>&1 &
    waiting=$!
    exec {line_writer}>lines
    echo 'PUT talk 2' >&"$line_writer"
    wait_until 20 grep -q OK "interrupted.$threads"
    kill -TERM "$waiting"
    wait_until 20 eval "! kill -0 $waiting 2>/dev/null"
    check_equal 0 $? "SIGTERM ends $threads threads that wait for lines"
    exec {line_writer}>&-
    wait "$waiting"
    check_equal 143 $? 'and the exit code tells'
    check_match '1 done.*; interrupted$' "$(cat "interrupted.$threads")" 'and the summary says so'
done

# So it does where nobody reads the answers.
client put long "$(printf '%01000d' 0)" >/dev/null
seq 1 1000 | sed 's/.*/GET long/' >many
stuff_pipe answer_pipe
exec_client batch many >answer_pipe 2>reports &
waiting=$!
wait_until 20 test -e full
kill -TERM "$waiting"
wait_until 20 eval "! kill -0 $waiting 2>/dev/null"
check_equal 0 $? 'SIGTERM ends a batch whose answers nobody reads'
kill "$pipe_reader"
wait "$pipe_reader" 2>/dev/null
wait "$waiting"
check_equal 143 $? 'and the exit code tells'

# Threads share the lines; answers keep the order of the lines.
seq 1 20000 | sed 's/.*/PUT k& v&/' >puts
seq 1 20000 | sed 's/.*/GET k&/' >gets
seq 1 20000 | sed 's/.*/v&/' >values
check_status 0 'four threads put' client batch -n 4 puts
check_equal 20000 "$(grep -c '^OK$' <<<"$output")" 'every line'
client batch -n 4 gets >got 2>/dev/null
check_equal "$(md5sum <values)" "$(md5sum <got)" 'answers come in the order of the lines'
check_status 0 'several files get a thread each' client batch puts gets puts
check_equal 60000 "$(wc -l <<<"$output")" 'every line of each'
check_status 2 'several files and -n exclude each other' client batch -n 2 puts gets
check_status 2 'a file that is not there stops it before the first line' client batch puts nowhere
check_equal '' "$output" 'nothing was executed'

check_status 4 'a directory cannot be read' client batch -n 4 .
check_equal 1 "$(grep -c 'directory' <<<"$errors")" 'which is told once, not by every thread'
check_match '1 failed' "$errors" 'and counted once'

# Hostile lines: none may hurt.
printf 'GET a --\033[31m\n' >colours
check_status 2 'an option that colours a terminal' client batch colours
check_equal '' "$(grep $'\033' <<<"$output$errors")" 'is repeated without that'
{ head -c 1000000 /dev/urandom; printf '\nGET k1\n'; } >noise
client batch noise >answers 2>reports
check_equal 2 $? 'noise is bad lines, no more'
check_equal v1 "$(tail -n 1 answers)" 'and the line after it is executed'

# Formats.
check_status 2 'a batch in JSON' client --format json batch mixed
python3 -m json.tool --json-lines <<<"$output" >/dev/null
check_equal 0 $? 'each line is a JSON object'
check_status 2 'a batch in CSV' client --format csv batch -n 3 mixed
printf '%s\n' "$output" >mixed.csv
python3 -c '
import csv
rows = list(csv.reader(open("mixed.csv", newline="")))
assert rows[0][:3] == ["command", "key", "status"], rows[0]
assert len(rows) == 14 and all(len(row) == len(rows[0]) for row in rows), rows
' 2>python.log
check_equal 0 $? 'has one header and rows of equal length'

# Scans have columns of their own; several threads write in turn.
seq 1 400 | sed 's/.*/SCAN --limit 2\nGET a/' >scans
for threads in 1 3; do
    check_status 0 "scans in CSV by $threads threads" client --format csv batch -n "$threads" scans
    printf '%s\n' "$output" >scans.csv
    python3 -c '
import csv
columns, seen = [], {}
for row in csv.reader(open("scans.csv", newline="")):
    if row[0] in ("command", "key"):
        columns = row
    else:
        assert len(row) == len(columns), (columns, row)
        seen[columns[0]] = seen.get(columns[0], 0) + 1
assert seen == {"command": 400, "key": 800}, seen
' 2>python.log
    check_equal 0 $? 'have each row below its header'
done

# A scan of more than there is memory.
if [ "${MQKV_VARIANT:-release}" = release ]; then
    python3 -c 'for i in range(200): print(f"PUT big{i} " + "v" * 1000000)' |
        client batch -q - 2>/dev/null
    check_equal 200 "$(
        ulimit -v 180000
        echo 'SCAN big' | client --direct off batch - 2>/dev/null | grep -c '^big'
    )" 'a scan in a batch of one thread is not kept in memory'
    (
        ulimit -v 180000
        echo 'SCAN big' | client --direct off batch -q - 2>/dev/null
    )
    check_equal 0 $? 'nor is one whose answers nobody wants'
else
    skip 'a scan of more than there is memory: the sanitizers need more'
fi
