#!/usr/bin/env bash
# experiments_claims: comparisons are judged as by hand, disturbed runs give way, bars are drawn
. "$(dirname "$0")/lib.sh"

root=$(cd "$(dirname "$0")/../.." && pwd)
study=$MQKV_TEST_DIR/study
results=$MQKV_TEST_DIR/locks/rows
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/experiments

mkdir -p "$study" "$results"
cat >"$study/study.conf" <<'CONF'
[study]
title    = Locks by hand
question = Which lock?
fixed    = made up
metrics  = wait_us both_us
base_series = one
[knob]
name   = files
symbol = n
values = 10 100
[value 100]
label = a hundred
[series one]
label = one lock
[series many]
label = a lock a file
[load]
command = true
[compute]
both_us = 2 * (wait_us + extra) ** 1 / min(2, 5)
[names]
wait_us = time waited, µs
both_us = both, µs
[plot]
kind    = bars
x       = series
metrics = wait_us wait_us:ratio
log_y   = wait_us
[profile rows]
repeats   = 2
warmup_s  = 0
measure_s = 1
[published]
wait_us = wait_ms
[claim]
text    = Many locks help.
compare = wait_us: one > many
why_holds = Reason one.
why_else  = Reason two.
CONF
cat >"$study/published.csv" <<'CSV'
series,files,wait_ms
one,10,8
many,10,2
one,100,8
many,100,
CSV
cat >"$results/raw.csv" <<'CSV'
series,files,repeat,seconds,wait_us,extra,errors,steal_pct,foreign_cpu_pct,attempt,noisy
one,10,1,1,40,1,0,0,0,1,0
one,10,2,1,40,1,0,0,0,1,0
many,10,1,1,900,1,0,30,9,1,1
many,10,1,1,10,1,0,0,0,2,0
many,10,2,1,500,1,0,0,20,1,1
many,10,2,1,10,1,0,0,8,2,1
many,10,2,1,700,1,0,0,9,3,1
one,100,1,1,40.8,1,0,0,0,1,0
one,100,2,1,41.2,1,0,0,0,1,0
many,100,1,1,38,1,0,0,0,1,0
many,100,2,1,42,1,0,0,0,1,0
CSV
sed 's/"golden"/"locks"/' "$(dirname "$0")/experiments_golden/rows/manifest.json" \
    >"$results/manifest.json"

# judge COMPARISON: the finding on it.
judge() {
    python3 - "$study" "$results" "$1" <<'PYTHON'
import pathlib, sys
from harness import claim, comparison, study, summary
folder, results, line = sys.argv[1:]
found = study.read(folder)
rows = summary.summarise(found, summary.read_raw(pathlib.Path(results) / "raw.csv"))
one = claim.comparison(line, [series.name for series in found.series], found.values)
print(comparison.judge(found, rows, one).text)
PYTHON
}

# analyse COMPARISON [COMPARISON]: with these lines as the claim's; the conclusion of the report.
analyse() {
    printf '%s\n' "$@" | sed '2,$s/^/          /' >"$MQKV_TEST_DIR/lines"
    sed -e '/^compare/d' -e \
        "/^why_holds/i compare = $(sed 's/$/\\/; $s/\\$//' "$MQKV_TEST_DIR/lines")" \
        "$definition" >"$study/study.conf"
    "$root/experiments/analyse" --study "$study" --plots "$MQKV_TEST_DIR" "$results" || return
    sed -n '/^## Conclusion/,/^!/p' "$results/REPORT.md"
}
definition=$MQKV_TEST_DIR/definition
cp "$study/study.conf" "$definition"

# Of the attempts at a run the quietest counts: 10 and 10, so 40 / 10 = 4 exactly.
found=$(analyse 'wait_us: one > many at 10')
claim="one lock is more than a lock a file at n = 10"
check_match "^- Time waited: that $claim holds: at n = 10 .* is ×4 .*published ×4\)\." "$found" \
    'a clear difference holds, beside the published ratio'
check_match '^The published conclusion holds\. A guess at why: Reason one\.' "$found" \
    'with the reason for that'
check_match '1 of 8 runs saw .* 3 more attempts were made' "$(cat "$results/REPORT.md")" \
    'repeated runs and those that remained noisy are counted'

# At 100: 41 against 38 and 42. Student's t of one degree of freedom reaches to 12.7 standard
# errors, of 0.0049 and 0.05: the ratio lies between about 0.5 and 2.
around_1='at n = a hundred one .* ×1.02 \[0\.[0-9]+, [12][.0-9]*\] .*: undecided'
check_match "file at n = a hundred cannot be told here: $around_1" \
    "$(judge 'wait_us: one > many at 100')" 'an interval around 1 does not tell'
check_match 'a file differ by 5 % at most at n = a hundred cannot be told here' \
    "$(judge 'wait_us: one = many at 100')" 'nor that there is no difference'
check_match 'a file holds in part: at n = 10 .*×4 .*hundred' "$(judge 'wait_us: one > many')" \
    'without places every value is compared'
check_match 'does not hold: at n = 10 one lock is ×4 a lock a file .*: does not hold' \
    "$(judge 'wait_us: one < many at 10')" \
    'the other direction fails'
check_match 'is at least 301 % more than a lock a file at n = 10 does not hold' \
    "$(judge 'wait_us: one > many by 301 % at 10')" \
    'a difference smaller than claimed fails'
check_match 'holds: ' "$(judge 'wait_us: one > many by 299 % at 10')" 'one larger than that holds'
check_match 'a hundred differ by 20 % at most holds: one lock at n = 10 is ×0.976 ' \
    "$(judge 'wait_us: one@10 = one@100 within 20 %')" 'no difference within a tolerance holds'
check_match 'a file is ×0.26 one lock, within 10 %, at n = 10 holds' \
    "$(judge 'wait_us: many / one ~ 0.26 at 10')" \
    'a ratio within its tolerance holds'
check_match '×0.5 one lock, .* does not hold' "$(judge 'wait_us: many / one ~ 0.5 at 10')" \
    'a larger one to the same side does not'
check_match ' cannot be told here' "$(judge 'wait_us: one / many ~ 1.2 at 100')" \
    'an interval that reaches beyond the tolerance does not tell'
check_match '×3 one lock, .* does not hold' "$(judge 'wait_us: many / one ~ 3 at 10')" \
    'one to the other side does not'
check_match 'holds in part: 1 of 2 pairs holds, 1 does not\. A guess at why: Reason two' \
    "$(analyse 'wait_us: one > many at 10' 'wait_us: one < many at 10')" \
        'several lines are put together, and their pairs are counted'
check_match \
    'is more than n = 10 holds in part: with one lock n = a hundred is ×1.02 .*ed; with a lock' \
    "$(judge 'wait_us: 100 > 10')" 'values are compared within each series'
check_match '10 \| 8 \| 1.00 \| 40 \| 1.00 \| 2 \| 0.25 \| 10 \| 0.25 ' \
    "$(cat "$results/REPORT.md")" \
    'published and own figures of several series stand side by side'

cp "$results/raw.csv" "$MQKV_TEST_DIR/whole.csv"
sed -i '/^many,10,2,/d' "$results/raw.csv"
check_match 'cannot be told here: .* is ×4 a lock a file .* ×4\): a single run, undecided$' \
    "$(judge 'wait_us: one > many at 10')" 'a point with a single run tells nothing'
cp "$MQKV_TEST_DIR/whole.csv" "$results/raw.csv"

# Columns made of columns.
check_equal '41,41,41' "$(sed -n 2p "$results/summary.csv" | grep -o '41,41,41')" \
    'a formula is computed'
formula() {
    python3 -c "from harness.formula import evaluate; print(evaluate('$1', {'a': '3', 'b': 2}))"
}
check_equal 7.0 "$(formula 'a * b + max(1, -a)')" 'with the usual precedence'
check_equal 0.0 "$(formula 'a / (b - 2)')" 'nothing divided by nothing is nothing'
check_status 1 'a formula cannot call what it likes' formula '__import__("os")'
check_match 'only columns' "$errors" 'and says what it can'

# Errors name the line.
for wrong in 'wait_us: one > none' 'wait_us: one > 10' 'wait_us: one = many by 5 %' 'one > many' \
    'wait_us: one / many ~ -2' 'wait_us: one > many at 7' 'wait_us: one > many < one'; do
    check_status 1 "refused: $wrong" analyse "$wrong"
    check_match "\[claim\] compare: '$wrong': " "$errors" 'with section, key and line'
done

# Steps along the knob, where ratios are to another series: the published ones are 12046 / 2017 and
# 13427 / 1944. Nothing was published of a thread per request.
steps=$MQKV_TEST_DIR/steps
stepped=$MQKV_TEST_DIR/stepped/rows
mkdir -p "$steps" "$stepped"
cat >"$steps/study.conf" <<'CONF'
[study]
title       = Steps by hand
question    = Does it grow?
metrics     = ops_per_s
base_series = event
[knob]
name   = clients
symbol = N
values = 1 100
[series event]
[series pool]
[series thread]
[load]
command = true
[profile rows]
repeats   = 2
warmup_s  = 0
measure_s = 1
[published]
ops_per_s = requests_per_s
[claim]
text   = It grows.
shapes = ops_per_s:rising
CONF
cat >"$steps/published.csv" <<'CSV'
series,clients,requests_per_s
event,1,2017
event,100,12046
pool,1,1944
pool,100,13427
CSV
echo series,clients,repeat,seconds,ops_per_s >"$stepped/raw.csv"
for point in event,1:100 event,100:120 pool,1:100 pool,100:700 thread,1:10 thread,100:30; do
    for repeat in 1 2; do
        echo "${point%:*},$repeat,1,${point#*:}"
    done
done >>"$stepped/raw.csv"
sed 's/"golden"/"steps"/' "$(dirname "$0")/experiments_golden/rows/manifest.json" \
    >"$stepped/manifest.json"
check_status 0 'steps are analysed' "$root/experiments/analyse" --study "$steps" \
    --plots "$MQKV_TEST_DIR" "$stepped"
text=$(cat "$stepped/REPORT.md")
check_match '^With event, the published conclusion holds in part\.$' "$text" \
    'a step far smaller than the published one is weak'
check_match '×1\.20 that of N = 1 \(published ×5\.97; intervals apart, but the step is' "$text" \
    'and stands beside that, not beside a ratio to another series'
check_match '×7\.00 that of N = 1 \(published ×6\.91; intervals apart\)' "$text" \
    'so does that of the other published series'
check_match '^With thread, the claim holds\.$' "$text" \
    'a series without published figures has no published conclusion'
check_match '×3\.00 that of N = 1 \(intervals apart\)' "$text" 'nor a published step'

# What is published stands apart from what is not; shapes are judged where the study says.
split=$(analyse 'wait_us: one > many at 10' 'wait_us: many > one at 100')
check_match '^The published conclusion holds\. ' "$split" 'the pairs that the source has figures of'
check_match '^(The claim|These runs do not decide whether the claim) ' "$split" 'and the others'
check_match '^\*\*Claim\.\*\* Many locks help\.$' "$(cat "$results/REPORT.md")" \
    'a report tells its claim, also without a source'
sed -i -e 's/^values = 1 100/values = 1 10 100/' -e 's/^shapes = .*/&\nover = 1 10/' \
    -e 's/^\[load\]/[plot]\nmetrics = ops_per_s:published\n&/' "$steps/study.conf"
for repeat in 1 2; do
    echo "thread,10,$repeat,1,10"
    echo "event,10,$repeat,1,110"
    echo "pool,10,$repeat,1,700"
done >>"$stepped/raw.csv"
check_status 0 'with values to judge over' "$root/experiments/analyse" --study "$steps" \
    --plots "$MQKV_TEST_DIR" "$stepped"
text=$(cat "$stepped/REPORT.md")
check_match '^With thread, these runs do not decide whether the claim holds' "$text" \
    'a step beyond them decides nothing'
check_match '; beyond what is judged, at N = 100, it is ×3\.00 that of N = 10' "$text" 'but is told'
check_match '^array panel_published\[1\] = \[1\]$' "$(cat "$stepped/plot.gp")" \
    'a panel may show the series alone that have published figures'
check_match '^array series_published\[3\] = \[1, 1, 0\]$' "$(cat "$stepped/plot.gp")" \
    'which are two'
for wrong in 7 1; do
    sed "s/^over = .*/over = $wrong/" "$steps/study.conf" >"$MQKV_TEST_DIR/over.conf"
    mkdir -p "$MQKV_TEST_DIR/over"
    mv "$MQKV_TEST_DIR/over.conf" "$MQKV_TEST_DIR/over/study.conf"
    cp "$steps/published.csv" "$MQKV_TEST_DIR/over"
    check_status 1 "judged over $wrong: refused" \
        python3 -c "from harness import study; study.read('$MQKV_TEST_DIR/over')"
    check_match 'study.conf:[0-9]+: \[claim\] over: ' "$errors" 'with file and line'
done

# The picture: a bar for each point, the published ratios, the words.
if command -v gnuplot >/dev/null && command -v rsvg-convert >/dev/null; then
    analyse 'wait_us: one > many' >"$MQKV_TEST_DIR/conclusion"
    check_status 0 'bars are drawn' "$root/plots/draw" -o "$MQKV_TEST_DIR" "$results/summary.csv"
    check_equal '' "$errors" 'and gnuplot has nothing to complain about'
    svg=$MQKV_TEST_DIR/locks-rows.svg
    for text in 'Locks by hand' 'time waited, µs' 'time waited, ratio to one lock' 'n = a hundred' \
        'a lock a file' 'published ratio'; do
        check_match ">$text" "$(cat "$svg")" "the picture says: $text"
    done
    # A panel of two series by two values, and a key of two; the log axis has dots.
    check_equal 6 "$(grep -c "<polygon *fill = 'url(#gpPat" "$svg")" \
        'a bar for each point where the axis begins at zero'
    check_status 0 'a deck is made' "$root/experiments/slides" --study "$study" \
        -o "$MQKV_TEST_DIR/deck.pdf" "$results"
    check_equal %PDF "$(head -c 4 "$MQKV_TEST_DIR/deck.pdf")" 'as PDF'
    if command -v pdfinfo >/dev/null; then
        check_match '^Pages: +6$' "$(pdfinfo "$MQKV_TEST_DIR/deck.pdf")" \
            'question and claim, method, two pictures, a table, the conclusion'
    fi
    if command -v pdftotext >/dev/null; then
        check_match '6 ?/ ?6' "$(pdftotext "$MQKV_TEST_DIR/deck.pdf" -)" 'and pages have numbers'
    fi
    check_status 1 'of a study without results: refused' "$root/experiments/slides" nothing
    check_match 'no results; measure first: experiments/run nothing' "$errors" 'and what to do'
    check_status 1 'or without those of a profile' "$root/experiments/slides" --profile full nothing
    check_match 'measure first: experiments/run --profile full nothing$' "$errors" 'likewise'
else
    skip 'no gnuplot or rsvg-convert: bars not drawn'
fi

# Repetitions end, whatever the machine does. again PCT...: runs repeated when every attempt, first
# those of ten runs, then repetitions, is disturbed like this (the last goes on for ever).
again() {
    python3 - "$@" <<'PYTHON'
import sys
from harness.noise import Again
shares = [float(text) for text in sys.argv[1:]]
share = lambda i: shares[min(i, len(shares) - 1)]
row = lambda run, attempt, i: {
    "run": run, "attempt": str(attempt), "steal_pct": share(i), "foreign_cpu_pct": "0"}
rows = [row(run, 1, run) for run in range(10)]
again = Again(rows, 10, 5.0, lambda row: row["run"])
order = []
while len(order) < 99 and (repeated := again.next()):
    order.append("%d/%d" % repeated)
    again.add(row(*repeated, 9 + len(order)))
print(*order)
PYTHON
}
check_equal '' "$(again 0)" 'a quiet machine repeats nothing'
check_equal '0/2 1/2' "$(again 9 9 0)" 'a disturbed run is repeated once, if that is quiet'
check_equal '0/2 0/3' "$(again 9 0 0 0 0 0 0 0 0 0 9)" 'no more than three attempts are made'
check_equal '0/2 1/2 2/2 3/2 4/2' "$(again 9)" 'and half as many repetitions as runs'

# Studies by hand, of the series one and many: for the two programs below.
cat >"$MQKV_TEST_DIR/by_hand.py" <<'PYTHON'
from harness import study

def read(folder, knob, more):
    """The study in folder; more: its other sections."""
    folder.mkdir(exist_ok=True)
    (folder / "study.conf").write_text(f"""
[study]
title = t
question = q
metrics = ops_per_s
base_series = one
[knob]
{knob}
[series one]
[series many]
[load]
command = true
[profile p]
repeats = 2
warmup_s = 0
measure_s = 1
{more}
""", encoding="utf-8")
    return study.read(folder)

def rows_of(found, ratios, shares=(1, 1), foreign="0"):
    """ratios: of many to one, at each value of the knob; shares: of the mean, what the runs of a
    point have."""
    return [
        {"series": name, found.knob: value, "repeat": str(repeat), "seconds": "1",
         "ops_per_s": str(figure * share), "steal_pct": "0", "foreign_cpu_pct": foreign}
        for value, ratio in zip(found.values, ratios)
        for name, figure in (("one", 50), ("many", 50 * ratio))
        for repeat, share in enumerate(shares)
    ]
PYTHON

# Crossovers where they are not plain, by hand; `many` over `one` at S = 1 (off) to 20000.
crossings=$MQKV_TEST_DIR/crossings.py
cat >"$crossings" <<'PYTHON'
import json, pathlib, sys
from harness import content, summary
import by_hand
manifest = json.loads(pathlib.Path(sys.argv[2]).read_text())
found = by_hand.read(pathlib.Path(sys.argv[1]), """name = S
unit = µs
values = 1 10 100 1000 20000
[value 1]
label = 0
[value 10]
label = 10 µs""", """[crossover]
compare = ops_per_s: many > one by 10 %""")

def tell(ratios, **runs):
    """The report's sentence."""
    rows = by_hand.rows_of(found, ratios, **runs)
    told = content.of(found, summary.summarise(found, rows), rows, manifest)
    print(*told.crossovers or ["nothing"])

tell([1.59, 0.89, 0.64, 1.37, 1.09])
tell([1, 4, 4, 4, 4])
tell([0, 0, 4, 4, 4])
tell([1.05, 4, 4, 4, 1.05], shares=(0.7, 1.3))
tell([1.2, 1.3, 4, 4, 4], shares=(0.97, 1.03))
tell([1, 4, 4, 4, 4], shares=(1,))
tell([1, 4, 4, 4, 4], foreign="40")
PYTHON
text=$(python3 "$crossings" "$MQKV_TEST_DIR/crossings" "$results/manifest.json")
with='throughput with many is'
check_match "^Beyond S = 18 ms, $with no longer at least 10 % higher than with one \(" "$text" \
    'where a difference ends, nothing is said of what was before'
check_match "^From some S between 0 and 10 µs on, $with at least 10 % .*: 0 to 10 µs\)\.$" "$text" \
    'no line leads from a first value that is none'
check_match "^From S = 100 µs on, $with at least 10 % higher" "$text" 'a figure of 0 is no equality'
check_match "^These runs do not tell from which S on $with at least 10 % higher than" "$text" \
    'an interval over everything tells nothing'
check_match "^From S = [0-9.]+ m?µ?s on at the latest, $with at least 10 % higher" "$text" \
    'where all means show it, the interval tells from where on the runs do'
check_match "^Whether $with at least 10 % higher .* one: single runs do not tell\.$" "$text" \
    'nor do single runs'
check_equal nothing "$(tail -n 1 <<<"$text")" 'nor disturbed ones'
# refused VALUE: as another value of the knob.
refused() {
    sed "s/^values = 1 /values = 1 $1 /" "$MQKV_TEST_DIR/crossings/study.conf" >"$steps/study.conf"
    check_status 1 "a crossover along a knob with $1 is refused" \
        python3 -c "from harness import study; study.read('$steps')"
    check_match "study.conf:[0-9]+: \[crossover\] compare: needs .* above 0, not '$1'" "$errors" \
        'with file and line'
}
refused 0
refused few

# Crossovers and theory, by hand. Along n, `many` is ×1, ×1, ×4 of `one`: with 100 % more in the
# middle of the logarithms between 10 and 1000, at 100.
lines=$MQKV_TEST_DIR/lines.py
cat >"$lines" <<'PYTHON'
import pathlib, sys
from harness import crossover, study, summary, theory
import by_hand
folder = pathlib.Path(sys.argv[1])
found = by_hand.read(folder, """name = n
unit = µs
values = 1 10 1000""", """[crossover]
compare = ops_per_s: many > one by 100 %
    ops_per_s: one > many by 900 %
    ops_per_s: one < many
[theory]
model = balanced
clients = 4
servers = n
service_us = 1000
source = s""")
rows = by_hand.rows_of(found, [1, 1, 4])
summed = summary.summarise(found, rows)
for one in crossover.of(found, summed):
    print(one.text)
print("theory", *(f"{r.estimates['ops_per_s'].mean:.0f}" for r in summed if r.origin == "theory"))
open_queue = theory.open_queue(800, 1, 0.001)
print("M/M/1", f"{open_queue['mean_us']:.0f}", theory.open_queue(1000, 1, 0.001))
print("M/M/2", f"{theory.open_queue(1000, 2, 0.001)['mean_us']:.1f}")
print("closed", *(f"{theory.closed_queue(5, m, 0.001, 0):.0f}" for m in (1, 3, 8)))
print("one client", f"{theory.closed_queue(1, 1, 0.001, 0.003):.0f}")
definition = folder / "study.conf"
closed = definition.read_text()
definition.write_text(closed.replace("model = balanced\nclients = 4", """model = open
rate_per_s = n
arrivals = even
servers.many = 1"""))
even = study.read(folder).theory
times = [theory.predict(even, {"n": 800}, name)["mean_us"] for name in ("many", "one")]
print("even:", even.label, *(f"{time:.0f}" for time in times))
PYTHON
text=$(python3 "$lines" "$MQKV_TEST_DIR/crossing")
check_match '^From n = 100 µs on, throughput with many is at least 100 % higher than with one' \
    "$text" 'the crossover is where the claimed size is passed'
check_match '^Up to n = 1000 it does not show that throughput with one is at least 900 %' "$text" \
    'a difference that is never there has none'
check_match '^From n = 10 µs on, throughput with one is lower than with many' "$text" \
    'one of any size begins at the last equality'
# 4 clients at D servers of 1 ms: 4 D / (D + 3) per ms.
check_match '^theory 1000 3077 3988 1000 3077 3988$' "$text" 'mean value analysis, by hand'
check_match '^M/M/1 5000 \{\}$' "$text" \
    'M/M/1 at 80 % takes five service times; at 100 % nothing is said'
# It waits four of them; evenly spaced, half of that. 800 servers for 0.8 operations: no wait.
check_match '^even: D/M/c \(approximation\) 3000 1000$' "$text" \
    'D/M/1 waits about half as long, and a series may have servers of its own'
check_match '^M/M/2 1333\.3$' "$text" 'M/M/2 at 50 % a third more than one'
check_match '^closed 1000 3000 5000$' "$text" 'without think time all servers are busy'
check_match '^one client 250$' "$text" 'and with it as often as a cycle'
