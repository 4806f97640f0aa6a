#!/usr/bin/env bash
# microbench: each piece can be measured alone, and the page shows the rows that were kept.
. "$(dirname "$0")/lib.sh"

program=$MQKV_BUILD/tests/microbench
root=$(cd "$(dirname "$0")/../.." && pwd)

"$program" --calls 1600 'encode a PUT' 'get, 100 k keys' >"$MQKV_TEST_DIR/rows"
check_equal 'layer,piece,calls,cpu_ns_per_call,instructions_per_call' \
    "$(head -n 1 "$MQKV_TEST_DIR/rows")" 'the header names the columns'
check_equal 'wire,"encode a PUT",1600, engine,"get, 100 k keys",1600,' \
    "$(sed -n 's/[0-9.]*,[0-9.]*$//; 2,$p' "$MQKV_TEST_DIR/rows" | tr '\n' ' ' | sed 's/ $//')" \
    'a row a piece'
check_status 0 'every piece runs' "$program" --calls 16 >/dev/null
check_equal \
    'client,"GET without the system calls",1600, client,"PUT without the system calls",1600,' \
    "$("$program" --calls 1600 'GET without the system calls' 'PUT without the system calls' |
        sed -n 's/[0-9.]*,[0-9.]*$//; 2,$p' | tr '\n' ' ' | sed 's/ $//')" \
    'whole calls of the client too'
check_status 2 'an unknown piece is an error' "$program" 'no such piece' 2>/dev/null
check_status 2 'and so is an unknown option' "$program" --cals 2>/dev/null

mkdir "$MQKV_TEST_DIR/kept"
cat >"$MQKV_TEST_DIR/kept/raw.csv" <<'END'
layer,piece,calls,cpu_ns_per_call,instructions_per_call,instructions_from
wire,encode a PUT,1600,24.51,196.2,Callgrind
engine,"get, 100 k keys",1600,95.2,,
END
echo '{"instructions_from": "Callgrind", "repeats": 3, "commit": "0123456789abcdef", "cpu": "a CPU",
    "finished_utc": "2026-11-21T10:00:00Z"}' >"$MQKV_TEST_DIR/kept/manifest.json"
cd "$root/experiments" || exit
# section FOLDER: what docs/PERFORMANCE-TABLES.md gets of it.
section() {
    python3 -B -c 'import pathlib, sys
from judge import microbench
print(microbench.section(pathlib.Path(sys.argv[1])))' "$1"
}
check_equal '| wire | encode a PUT | 196 | 24.5 | | engine | get, 100 k keys | – | 95.2 |' \
    "$(section "$MQKV_TEST_DIR/kept" | sed -n 3,4p | tr '\n' ' ' | sed 's/ $//')" \
    'the page has a line a piece, and a dash for what was not counted'
check_equal 1 "$(section "$MQKV_TEST_DIR/absent" | grep -c 'Not measured yet')" \
    'and says so where nothing was kept'
