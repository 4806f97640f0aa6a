#!/usr/bin/env bash
# bench_plan: the time and room that `make bench` will take, works of one's choice, rows of two
# builds
. "$(dirname "$0")/lib.sh"

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$MQKV_TEST_DIR/build
results=$MQKV_TEST_DIR/results
raw=$results/peers/quick/raw.csv
mkdir -p "$build"
printf 1 >"$build/serverk"

# plan OPTION...: what --dry-run says, blanks squeezed.
plan() {
    "$root/experiments/bench" --dry-run --build "$build" --out "$results" --store "$MQKV_TEST_DIR" \
        "$@" 2>&1 |
        tr -s ' '
}

# 4 systems x 5 repeats; 4 engines, of which one run gives two rows, in three works.
check_match '^ 20 runs .* Many keys' "$(plan population)" \
    'one run of many keys gives all its figures'
check_match '^ 20 runs .* Engines in process' "$(plan 'engine-*-1')" 'a put and a get are one run'
check_match '^ 20 runs .* Many keys' "$(plan 'many keys')" 'a section can be chosen'
check_match '^ 60 runs .* in all' "$(plan engines)" 'or a kind, whatever its sections'
check_match '^ 600 runs .* A busy machine' "$(plan busy)" 'paired works have more and shorter runs'
check_match '^ 45 runs .* Offered load' "$(plan offered)" 'all shares of a load are one run'
check_match 'not measured: direct-get-1, direct-get-2, .*: clientk has no --direct' \
    "$(plan direct get-1)" 'what these programs cannot do is named'
check_match 'no case matches nothing' "$(plan nothing)" 'or nothing at all'
check_match '^disk: [0-9.]+ GiB needed, [0-9.]+ GiB free' "$(plan population | grep disk)" \
    'room is told'

# bench_python: a program on the judge's modules; `bench` is experiments/bench, not run.
bench_python() {
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/experiments python3 - "$root/experiments/bench" \
        "$@" <<PYTHON 2>&1
import csv, importlib.machinery, importlib.util, pathlib, sys
loader = importlib.machinery.SourceFileLoader("bench", sys.argv[1])
bench = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
sys.modules["bench"] = bench
loader.exec_module(bench)
from judge import plan, provenance, rows
$(cat)
PYTHON
}

# refusal DISK MEMORY: what the whole plan is refused with where so many bytes of each are at hand.
refusal() {
    bench_python "$@" <<'PYTHON'
plan.at_hand = lambda folder: {"disk": int(sys.argv[2]), "memory": int(sys.argv[3])}
try:
    plan.check(list(bench.judge_cases.all_cases()), rows.PROFILES["quick"], "/tmp")
except bench.HarnessError as error:
    print(error)
PYTHON
}

check_match 'need [0-9.]+ GiB, and there are 0.0 GiB of memory available: end other programs' \
    "$(refusal $((1 << 50)) 1)" 'too little memory is found before anything is measured'
check_match 'GiB free under /tmp: give another folder with --store' "$(refusal 1 $((1 << 50)))" \
    'and too little disk'

# measured WORK: rows of quick for it, of the programs that are in the folder now, a second each,
# without any system: what `experiments/bench --merge WORK` would leave.
measured() {
    bench_python "$@" --merge --build "$build" --out "$results" --store "$MQKV_TEST_DIR" <<'PYTHON'
sys.argv[:2] = ["bench"]
options = bench.parse_options()
class Fake:
    @staticmethod
    def measure(cases, ledger):
        order = [(c, s, n) for c in cases for n in ledger.repeats() for s in c.systems]
        row = {"ops_per_s": 1, "steal_pct": 0, "foreign_cpu_pct": 0}
        ledger.measure(order, lambda *_: row, str)
bench.KINDS = dict.fromkeys(bench.KINDS, Fake)
bench.commit_of = lambda facts: "commit-" + (options.build / "serverk").read_text()
bench.measure(options.out / "peers" / "quick", options)
PYTHON
}
# rows_of WORK: how many there are of each build.
rows_of() {
    grep "^$1," "$raw" | grep -o 'commit-[0-9]' | sort | uniq -c | tr -s ' \n' ' '
}

measured get-1 get-5 >"$MQKV_TEST_DIR/log"
check_match '^25 rows of .* are kept, 25 are not' "$(plan --merge --fresh get-1)" \
    'measuring one work afresh leaves the others'
check_match '^ 0 runs' "$(plan get-1)" 'what is there needs no run'
check_match '^ 25 runs .*One operation' "$(plan --merge --fresh get-1)" \
    'unless it is to be measured again'
printf 2 >"$build/serverk"
check_match '^the 50 rows of .* would be set aside' "$(plan get-1)" \
    'rows of other programs are set aside'
check_match '^25 rows of .* are kept, 25 are not' "$(plan --merge get-1)" \
    'with --merge only those chosen'
measured get-1 >>"$MQKV_TEST_DIR/log"
check_equal ' 25 commit-2 | 25 commit-1 ' "$(rows_of get-1)|$(rows_of get-5)" \
    'then rows of both builds stand side by side'
check_match '^the 50 rows of .* would be set aside' "$(plan)" \
    'but a run of all is of one build'
sed -i -E 's/,0\.[0-9]+,commit-2/,10.00,commit-2/' "$raw"
check_match '^ 25 runs 4 min 1[0-9] s One' "$(plan --fresh get-1)" \
    'the time that runs took is the best guess'

told=$(bench_python "$raw" <<'PYTHON'
print(provenance.told(list(csv.DictReader(open(sys.argv[2], encoding="utf-8")))))
PYTHON
)
check_match '^- .*commit commit-1: get-5$' "$(grep commit-1 <<<"$told")" \
    'the page tells which work is of which commit'
check_match '^- .*commit commit-2: get-1$' "$(grep commit-2 <<<"$told")" 'of all of them'
check_equal 2 "$(grep -c '"cases"' "$results/peers/quick/manifest.json")" 'and so does the manifest'
