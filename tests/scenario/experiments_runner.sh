#!/usr/bin/env bash
# experiments_runner: a study's runs are complete, resumable, never mixed, and leave nothing behind
# long: runs studies
. "$(dirname "$0")/lib.sh"
has_lab 'experiments_runner' || exit 0

root=$(cd "$(dirname "$0")/../.." && pwd)
study=$MQKV_TEST_DIR/knobs
out=$MQKV_TEST_DIR/results
rows=$out/knobs/short/raw.csv
calls=$MQKV_TEST_DIR/calls

mkdir "$study"
# A load without a daemon: tells that it was called, and prints a row.
cat >"$study/load" <<'LOAD'
#!/bin/sh
echo "$1 $2" >>"$3"
[ "$1" != "$(cat "$3.fail" 2>/dev/null)" ] || { echo "no luck with $1" >&2; exit 4; }
exec sleep "$2" &
wait
echo ops,seconds,ops_per_s,mean_us,errors
echo "$1,1,$1,$1,0"
LOAD
chmod +x "$study/load"
cat >"$study/study.conf" <<CONF
[study]
title    = Knobs
question = Does the runner run?
metrics  = ops_per_s mean_us
[knob]
name   = knob
values = 1 2
[series one]
[series two]
[load]
command = $study/load {knob} {seconds} $calls
prepare = none
[profile short]
repeats   = 3
warmup_s  = 0
measure_s = 0.01
[profile long]
repeats   = 1
warmup_s  = 0
measure_s = 30
[profile wide]
values    = 1 2 4
repeats   = 1
warmup_s  = 0
measure_s = 0.01
CONF

common=(--out "$out" --plots "$MQKV_TEST_DIR" --store "$MQKV_TEST_DIR" --build "$MQKV_BUILD"
    --queue "$MQKV_TEST_QUEUE" --noise-limit 100)
run() {
    "$root/experiments/run" "${common[@]}" "$@"
}
run_short() {
    run --profile short "$@" "$study"
}
lines_of() {
    wc -l <"$1"
}
points() {
    cut -d, -f1-3 "$rows" | tail -n +2
}

check_status 0 'a study runs' run_short
check_equal 13 "$(lines_of "$rows")" 'every point has its rows, below one header'
check_equal 12 "$(points | sort -u | wc -l)" 'no point is measured twice'
check_match '12/12 .* left' "$errors" 'progress is told in plain lines where there is no terminal'
check_match '"program_hash"' "$(cat "$out/knobs/short/manifest.json")" 'a manifest is kept'
check_match "\"measure\": \"$study/load [12] 0.01 $calls\"" \
    "$(cat "$out/knobs/short/manifest.json")" 'with full command lines'
first_order=$(points)
check_equal 1,1,1,1,2,2,2,2,3,3,3,3, "$(cut -d, -f3 <<<"$first_order" | tr '\n' ,)" \
    'each repeat is one pass over all points'

run_short --fresh 2>/dev/null >&2
check_equal "$first_order" "$(points)" 'the same seed gives the same order'
check_status 0 '--fresh sets earlier rows aside' test -f "$out/knobs/short.earlier/raw.csv"
run_short --seed 2 2>/dev/null >&2
check_status 1 'another seed gives another order' test "$first_order" = "$(points)"

check_status 0 'a profile has values of the knob of its own' run --profile wide "$study"
check_equal 1,1,2,2,4,4, \
    "$(tail -n +2 "$out/knobs/wide/raw.csv" | cut -d, -f2 | sort -n | tr '\n' ,)" \
    'and measures those'
check_match '^[|] 4 ' "$(cat "$out/knobs/wide/REPORT.md")" 'its report has them'
sed 's/^values    = 1 2 4/values = 2 4/' "$study/study.conf" >"$MQKV_TEST_DIR/study.conf"
check_status 1 'values without the base are refused' run --profile wide "$MQKV_TEST_DIR"
check_match 'profile wide. values: the base 1 is missing' "$errors" 'by name'

# A profile for many CPUs says nothing on few, and tells of itself in its own words.
cat >>"$study/study.conf" <<'CONF'
[profile many]
repeats   = 1
warmup_s  = 0
measure_s = 0.01
cpus      = 9999
fixed     = what is fixed there
notes     = what is said of it
CONF
check_status 1 'a profile for more CPUs is refused' run --profile many "$study"
check_match 'about 9999 CPUs or more, and here are [0-9]+.*--few-cpus' "$errors" \
    'with how many there are'
check_status 0 'unless it is to be tried' run --profile many --few-cpus "$study"
told=$(cat "$out/knobs/many/REPORT.md")
check_match '^# Knobs [(][0-9]+ CPUs[)]$' "$told" 'its title tells the CPUs'
check_match 'what is fixed there' "$told" 'what is fixed in the profile is told'
check_match 'what is said of it' "$told" 'and its notes'

# Within a time: all studies in turn, a repeat of each after the other.
cp -r "$study" "$MQKV_TEST_DIR/second"
: >"$calls"
check_status 0 'two studies within a time' \
    run --profile short --fresh --within 60 "$study" "$MQKV_TEST_DIR/second"
check_equal 24 "$(lines_of "$calls")" 'that is enough for all runs'
check_equal 1,2,3, "$(tail -n +2 "$out/second/short/raw.csv" | cut -d, -f3 | uniq | tr '\n' ,)" \
    'have them repeat by repeat'
check_match '"finished_utc"' "$(cat "$out/second/short/manifest.json")" 'and are finished'
check_status 1 'a time that is too short for one run' \
    run --profile short --fresh --within 0.1 "$study"
check_match 'over before its first run' "$errors" 'is told'
run_short --fresh 2>/dev/null >&2

# Without gnuplot the rows are kept, and what is to be done with them is told.
mkdir "$MQKV_TEST_DIR/programs"
for program in env sh sleep cat git; do
    ln -s "$(command -v $program)" "$MQKV_TEST_DIR/programs/$program"
done
ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$MQKV_TEST_DIR/programs/python3"
check_status 0 'a study runs without gnuplot' \
    env PATH="$MQKV_TEST_DIR/programs" "$root/experiments/run" "${common[@]}" --profile wide \
    --fresh "$study"
check_match 'wide/raw.csv: no gnuplot here.*analyse' "$output" 'which is told'
check_equal 7 "$(lines_of "$out/knobs/wide/raw.csv")" 'and its rows are there'

# Interrupted: the last rows are missing, and one is torn.
run_short 2>/dev/null >&2
head -n 9 "$rows" >"$rows.kept"
{
    cat "$rows.kept"
    printf 'two,2,3,2026-'
} >"$rows"
: >"$calls"
check_status 0 'an interrupted run goes on' run_short
check_equal 4 "$(lines_of "$calls")" 'only what is missing is run'
check_equal "$(cat "$rows.kept")" "$(head -n 9 "$rows")" 'rows that were there stay'
check_equal "$first_order" "$(points)" 'the order is that of a run without interruption'
: >"$calls"
run_short 2>/dev/null >&2
check_equal 0 "$(lines_of "$calls")" 'a complete study is not run again'
sed -i 's/^title.*/title = Other words/' "$study/study.conf"
run_short 2>/dev/null >&2
check_equal 0 "$(lines_of "$calls")" 'what is only told of it may change'
sed -i 's/^prepare.*/prepare = other/' "$study/study.conf"
run_short 2>/dev/null >&2
check_equal 12 "$(lines_of "$calls")" 'rows of another definition are not kept'

# A plan measures nothing.
: >"$calls"
check_status 0 'a plan' run --profile short --plan "$study"
check_match '^knobs +12 of 12 runs are there; done$' "$output" 'knows what is there'
check_status 0 'a plan anew' run --profile short --plan --fresh "$study"
check_match '^knobs +0 of 12 runs are there; [0-9]' "$output" 'and what is to be measured'
check_status 0 'a plan of another profile' run --profile wide --plan "$study"
check_match '^knobs +0 of 6 runs are there' "$output" 'of which nothing is there'
check_equal 0 "$(lines_of "$calls")" 'and runs nothing'
mkdir -p "$MQKV_TEST_DIR/built/experiments"
plan_all=(run --build "$MQKV_TEST_DIR/built" --profile course --plan --all)
check_status 1 'a plan of all studies, of which some need programs' "${plan_all[@]}"
check_match 'not built: .*mixed_load.*make experiments' "$errors" 'which are named'
read -ra needed <<<"$(sed -n 's/.*not built: \(.*\): .make.*/\1/p' <<<"$errors")"
for program in "${needed[@]}"; do
    : >"$MQKV_TEST_DIR/built/$program"
done
check_status 0 'a plan of all studies' "${plan_all[@]}"
check_match '^knee +[0-9]+ of [0-9]+ runs are there' "$output" 'names each'
check_match '^about [0-9]+ (h|min)' "$output" 'and the time of all'
check_status 2 'all and a name' run --all "$study"
check_status 1 'all of a profile that no study has' run --all --profile tiny
check_match "no study has a profile 'tiny'" "$errors" 'are refused'

# Failure and signals.
echo 2 >"$calls.fail"
check_status 1 'a load that fails ends the run' run_short --fresh
check_match 'status 4 .*knobs/load 2' "$errors" 'with its status and command'
check_match 'no luck with 2' "$errors" 'and what it said'
cp -r "$study" "$MQKV_TEST_DIR/others"
sed -i 's/^values = 1 2$/values = 1 3/; s/^title.*/title = Others/' \
    "$MQKV_TEST_DIR/others/study.conf"
check_status 1 'a study that fails' run --profile short --fresh "$study" "$MQKV_TEST_DIR/others"
check_match 'experiments/run: knobs: status 4' "$errors" 'is named'
check_equal 13 "$(lines_of "$out/others/short/raw.csv")" 'and those behind it are run'
rm "$calls.fail"
check_status 1 'an unknown profile is refused' run --profile tiny "$study"
check_match "no profile 'tiny'.*short, long, wide, many" "$errors" 'and the known ones are named'
check_status 1 'a study that is not there is refused' run "$MQKV_TEST_DIR/nowhere"
check_match 'no study .*nowhere.*--list' "$errors" 'and where the studies are is said'

: >"$calls"
"$root/experiments/run" "${common[@]}" --profile long "$study" >/dev/null 2>&1 &
runner=$!
wait_until 60 test -s "$calls"
kill -TERM $runner
status=0
wait $runner || status=$?
check_equal 130 "$status" 'a signal ends the run'
check_equal '' "$(pgrep -f "$study/load" || true)" 'and its load'
check_equal '' "$(find "$MQKV_TEST_DIR" -maxdepth 1 -name 'mqkv-study-*')" 'no store is left'

# A real daemon.
check_daemon() {
    local mini=$MQKV_TEST_DIR/mini
    mkdir "$mini"
    cp "$root/experiments/workers/published.csv" "$mini"
    sed 's/^measure_s.*/measure_s = 0.1/; s/^repeats.*/repeats = 1/; s/--keys 10000/--keys 100/' \
        "$root/experiments/workers/study.conf" >"$mini/study.conf"
    check_status 0 'a study with daemons runs' run "$mini"
    check_equal 11 "$(lines_of "$out/mini/quick/raw.csv")" 'every point has its row'
    check_equal '' "$("$root/tests/leftovers" "$MQKV_TEST_QUEUE")" 'no queue is left'
    check_equal '' "$(find "$MQKV_TEST_DIR" -maxdepth 1 -name 'mqkv-study-*')" 'no store is left'

    "$root/experiments/run" "${common[@]}" --profile full "$mini" >"$MQKV_TEST_DIR/mini.log" 2>&1 &
    runner=$!
    wait_until 60 eval "ls -d '$MQKV_TEST_DIR'/mqkv-study-*/store >/dev/null 2>&1"
    sleep 0.3
    kill -INT $runner
    kill -TERM $runner
    wait $runner
    check_equal '' "$("$root/tests/leftovers" "$MQKV_TEST_QUEUE")" 'no queue is left after a signal'
    check_equal '' "$(pgrep -f "serverk.*$MQKV_TEST_DIR" || true)" 'and no daemon'

    # A server that is asked until it answers.
    sed -i 's/^\[load\]/ready = {clientk} -m {queue} ping\n[load]/' "$mini/study.conf"
    check_status 0 'a server is asked with a command of its own' run --check "$mini"
    sed -i 's/^ready = .*/ready = false/' "$mini/study.conf"
    sed -i 's/^values = .*/values = 1/' "$mini/study.conf"
    check_status 1 'one that never answers' run --check "$mini"
    check_match 'no success within 10 s from: false' "$errors" 'is told'
}
if [ -x "$MQKV_BUILD/serverk" ] && [ -x "$MQKV_BUILD/clientk" ]; then
    check_daemon
else
    skip "no serverk and clientk in $MQKV_BUILD"
fi

# Which commit a manifest names.
commit_of() { # REPOSITORY
    python3 -B -c 'import pathlib, sys
sys.path.insert(0, sys.argv[1])
from harness import commit
told = commit.facts(pathlib.Path(sys.argv[2]))
print(told["commit"], told["dirty"], told.get("commit_from", "git"))' "$root/experiments" "$1"
}
check_commit() {
    local tree=$MQKV_TEST_DIR/tree hash
    mkdir -p "$tree/packaging"
    cp "$root/packaging/COMMIT" "$tree/packaging/"
    (
        export HOME=$MQKV_TEST_DIR GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a \
            GIT_COMMITTER_EMAIL=a
        cd "$tree" && echo 'packaging/COMMIT export-subst' >.gitattributes && git init -q . &&
            git add -A && git commit -qm one
    ) || return
    hash=$(git -C "$tree" rev-parse HEAD)
    check_equal "$hash False git" "$(commit_of "$tree")" 'git tells the commit'
    check_equal "$hash False git" "$(GIT_TEST_ASSUME_DIFFERENT_OWNER=1 commit_of "$tree")" \
        "also that of another user's tree"
    echo >>"$tree/packaging/COMMIT"
    check_equal "$hash True git" "$(commit_of "$tree")" 'and what is not committed'
    mkdir "$tree/build"
    git -C "$tree" archive --prefix=build/dist/ HEAD | tar -x -C "$tree"
    check_equal "$hash unknown packaging/COMMIT" "$(commit_of "$tree/build/dist")" \
        'a distribution knows its own, also inside of another tree'
    cp "$root/packaging/COMMIT" "$tree/build/dist/packaging/"
    check_equal "unknown unknown git" "$(commit_of "$tree/build/dist")" 'a placeholder is none'
    check_equal "$hash unknown MQKV_COMMIT" "$(MQKV_COMMIT=$hash commit_of "$tree/build/dist")" \
        'the environment may tell it'
    check_equal "unknown unknown git" "$(MQKV_COMMIT=main commit_of "$tree/build/dist")" \
        'but only a whole one'
}
unset MQKV_COMMIT
if git --version >/dev/null 2>&1; then check_commit; else skip "no git"; fi

# A rehearsal: every variant once, nothing kept.
rm -f "$calls.fail"
: >"$calls"
check_status 0 '--check runs every variant' run --check --profile short "$study"
check_match '^knobs: 4 of 4 variants of profile short run$' "$output" 'and counts them'
check_equal 4 "$(lines_of "$calls")" 'each once'
before=$(md5sum "$rows")
echo 2 >"$calls.fail"
check_status 1 'a variant that fails is told' run --check --profile short "$study"
check_match '^one, knob = 2: status 4 from: .*/load 2 0.05' "$errors" \
    'by its name, with what it said'
check_equal "$before" "$(md5sum "$rows")" 'and nothing is kept of it'
rm -f "$calls.fail"
cp -r "$study" "$MQKV_TEST_DIR/unknown"
sed -i '/^\[load\]/,/^$/s/^command *= */&{klient} /' "$MQKV_TEST_DIR/unknown/study.conf"
check_status 1 'a field that is not known is told' \
    run --check --profile short "$MQKV_TEST_DIR/unknown"
check_equal 1 "$(grep -c "'klient' in a command" <<<"$errors")" 'once'
run_short >/dev/null 2>&1
check_match "To repeat: .experiments/run --profile short.* $study" \
    "$(cat "$out/knobs/short/REPORT.md")" 'the report says how to repeat a study given by path'
