#!/usr/bin/env bash
# experiments_again: rows that are measured again stand beside the committed ones, the notebook
# comes to the report's figures, and CPUs are kept awake
# long: runs notebooks
. "$(dirname "$0")/lib.sh"

root=$(cd "$(dirname "$0")/../.." && pwd)
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/experiments

# What is measured again says the same, the opposite, or nothing.
studies=$MQKV_TEST_DIR/studies
mkdir -p "$studies/twice"
cat >"$studies/twice/study.conf" <<'CONF'
[study]
title = t
question = q
metrics = ops_per_s
base_series = one
[knob]
name = n
values = 1 2
[series one]
[series many]
[load]
command = true
[profile quick]
repeats = 2
warmup_s = 0
measure_s = 1
[claim]
text    = Many help.
compare = ops_per_s: many > one at 1 2
CONF

# rows FOLDER RATIO RATIO [FOREIGN]: of many to one at 1 and at 2; runs scatter by 1 %.
rows() {
    local folder=$MQKV_TEST_DIR/$1/twice/quick
    mkdir -p "$folder"
    echo 'series,n,repeat,seconds,ops_per_s,steal_pct,foreign_cpu_pct' >"$folder/raw.csv"
    awk -v first="$2" -v second="$3" -v foreign="${4-0}" 'BEGIN {
        for (n = 1; n <= 2; n++) for (run = 1; run <= 3; run++) {
            share = 1 + (run - 2) / 100
            print "one," n "," run ",1," 100 * share ",0," foreign
            print "many," n "," run ",1," 100 * share * (n == 1 ? first : second) ",0," foreign
        } }' >>"$folder/raw.csv"
    sed -e 's/"golden"/"twice"/' -e 's/"rows"/"quick"/' \
        "$(dirname "$0")/experiments_golden/rows/manifest.json" |
        python3 -c 'import json, sys; found = json.load(sys.stdin)
found["definition_folder"] = sys.argv[1]
print(json.dumps(found))' "$studies/twice" >"$folder/manifest.json"
}

# again: what is said of each pair.
again() {
    python3 - "$MQKV_TEST_DIR" <<'PYTHON'
import pathlib, sys
from harness import repetition
here = pathlib.Path(sys.argv[1])
checks, is_disturbed = repetition.checks(here / "old/twice/quick", here / "new/twice/quick")
print(is_disturbed, *(f"{one.what}: {one.said}, {one.is_apart};" for one in checks))
PYTHON
}
rows old 2 2
rows new 2.01 0.5
at_1='ops_per_s: many@1 / one@1' at_2='ops_per_s: many@2 / one@2'
check_equal "False $at_1: agree, False; $at_2: contradict, True;" "$(again)" \
    'the same agrees, the opposite contradicts, of which intervals lie apart'
rows new 3 1
check_equal "False $at_1: agree, True; $at_2: undecided, True;" "$(again)" \
    'another size agrees all the same, and what decides nothing contradicts nothing'
rows new 2 0.5 50
check_match '^True .* undecided, False; .*: undecided, True;$' "$(again)" 'nor do disturbed runs'

# A committed figure that does not follow from its rows is named.
mkdir -p "$MQKV_TEST_DIR/results"
cp -r "$root/experiments/results/allocator" "$MQKV_TEST_DIR/results/"
check_figures() {
    "$root/experiments/check-claims" --figures-only --results "$MQKV_TEST_DIR/results" allocator
}
check_status 0 'committed figures follow from their rows' check_figures
check_match '^figures: 3 studies and profiles .* 0 files differ$' "$output" 'of each profile'
sed -i '2s/,1\./,9./' "$MQKV_TEST_DIR/results/allocator/quick/summary.csv"
check_status 1 'a figure that was changed by hand does not' check_figures
check_match '/allocator/quick/summary.csv: does not follow from the rows beside it' "$output" \
    'which is named'
check_status 1 'a study that is not there' "$root/experiments/check-claims" --results \
    "$MQKV_TEST_DIR/results" workers
check_match 'workers: no claim, no profile quick, or no results' "$errors" 'is an error'

# Spinners: one a CPU, at idle priority, which end with their parent, also after kill -9.
cat >"$MQKV_TEST_DIR/spin.py" <<'PYTHON'
import os, sys, time
from harness import awake
with awake.Awake() as spinners:
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s and (
        spinners.cpu_s() == 0
        or any(os.sched_getscheduler(pid) != os.SCHED_IDLE for pid in spinners.pids)
    ):
        time.sleep(0.01)
    is_idle = [os.sched_getscheduler(pid) == os.SCHED_IDLE for pid in spinners.pids]
    cpus = [len(os.sched_getaffinity(pid)) for pid in spinners.pids]
    told = [f"{pid}:{idle:d}:{of}" for pid, idle, of in zip(spinners.pids, is_idle, cpus)]
    print(*told, flush=True)
    if len(sys.argv) > 1:
        time.sleep(600)
with awake.Awake(False) as none:
    print(len(none.pids))
PYTHON
told=$(python3 "$MQKV_TEST_DIR/spin.py")
check_match '^([0-9]+:1:1 ?)+$' "$(head -n 1 <<<"$told")" 'each spins at idle priority on one CPU'
check_equal "$(nproc)" "$(head -n 1 <<<"$told" | wc -w)" 'one a CPU'
check_equal 0 "$(tail -n 1 <<<"$told")" 'none where none is wanted'
# gone PID:IDLE:CPUS...: whether all have ended.
gone() {
    local one
    for one in "$@"; do
        [ ! -e "/proc/${one%%:*}" ] || [[ $(<"/proc/${one%%:*}/stat") = *') Z '* ]] || return 1
    done
}
read -ra spinners <<<"$(head -n 1 <<<"$told")"
check_status 0 'and end with it' gone "${spinners[@]}"
mkfifo "$MQKV_TEST_DIR/told"
python3 "$MQKV_TEST_DIR/spin.py" hold >"$MQKV_TEST_DIR/told" &
holder=$!
read -ra spinners <"$MQKV_TEST_DIR/told"
kill -9 "$holder"
check_status 0 'also after kill -9' wait_until 20 gone "${spinners[@]}"
sed -i 's/^title = t/&\nkeep_awake = maybe/' "$studies/twice/study.conf"
check_status 1 'a study keeps them awake or does not' \
    python3 -c "from harness import study; study.read('$studies/twice')"
check_match '\[study\] keep_awake' "$errors" 'with section and key'

# The notebook: of lines, bars, groups, and panels of published series.
python=
for one in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! "$one" -c 'import pandas, matplotlib, nbclient, ipykernel' 2>/dev/null ||
        python=$one
done
if [ -z "$python" ]; then
    skip 'the notebook: no pandas, matplotlib, nbclient or ipykernel (tests/deps notebook)'
else
    # notebook RESULTS: runs it; what it prints, and how many pictures it draws.
    notebook() {
        cd "$root/experiments" && MQKV_RESULTS=$1 "$python" - <<'PYTHON'
import nbformat
from nbclient import NotebookClient
book = nbformat.read("rows.ipynb", 4)
NotebookClient(book, timeout=300, kernel_name="python3").execute()
found = [one for cell in book.cells for one in cell.get("outputs", ())]
print(*(one.text for one in found if one.output_type == "stream" and one.name == "stdout"))
print("pictures:", sum("image/png" in one.get("data", {}) for one in found))
PYTHON
    }
    for one in clients cache disk; do
        check_status 0 "the notebook runs of $one" notebook "$root/experiments/results/$one/course"
        check_match 'metrics of [0-9]+ points: as summary.csv has them' "$output" \
            'with the figures of the report'
        check_match '^pictures: 1$' "$output" 'and its picture'
    done
fi
