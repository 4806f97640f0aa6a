#!/usr/bin/env bash
# experiments_analysis: means, intervals, ratios, verdicts and plots come out of raw rows as by hand
# long: draws plots
. "$(dirname "$0")/lib.sh"

scenario=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$scenario/../.." && pwd)
golden=$scenario/experiments_golden
results=$MQKV_TEST_DIR/golden/rows

# fresh_rows: the golden rows in a folder of our own.
fresh_rows() {
    rm -rf "$results"
    mkdir -p "$(dirname "$results")"
    cp -r "$golden/rows" "$results"
}

# analyse [STUDY]
analyse() {
    "$root/experiments/analyse" --study "${1:-$golden/study}" --plots "$MQKV_TEST_DIR" "$results"
}

# draw FOLDER: the plot of its summary.csv.
draw() {
    "$root/plots/draw" -o "$MQKV_TEST_DIR" "$1/summary.csv"
}

# cells ORIGIN VALUE METRIC: its mean, low and high in summary.csv.
cells() {
    python3 - "$results/summary.csv" "$@" <<'PYTHON'
import csv, sys
path, origin, value, metric = sys.argv[1:]
for row in csv.DictReader(open(path, newline="")):
    if (row["origin"], row["threads"]) == (origin, value):
        print(row[metric], row[metric + "_low"], row[metric + "_high"])
PYTHON
}

# harness EXPRESSION: the value of a Python expression over harness.summary.
harness() {
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/experiments python3 -c \
        "from harness.summary import *; print($1)"
}

# conclusion: that section of the report, in one line.
conclusion() {
    sed -n '/^## Conclusion/,/^!/p' "$results/REPORT.md" | tr '\n' ' '
}

# check_near NUMBERS ACTUAL TEXT: as many numbers, each to 10 %.
check_near() {
    check_equal near "$(python3 - "$1" "$2" <<'PYTHON'
import sys
expected, got = ([float(word) for word in text.split()] for text in sys.argv[1:])
is_near = len(expected) == len(got) and all(abs(b / a - 1) < 0.1 for a, b in zip(expected, got))
print("near" if is_near else f"{got}, not {expected}")
PYTHON
)" "$3"
}

# student NUMBERS: the ends of the interval of their mean, as logarithms of their ratio to it.
student() {
    harness "*(math.log(end / mean($1)) for end in interval(drawn_means($1, 'a')))"
}

# Statistics. The middle of 1, 2, 3, 4 lies halfway; 0.9 of the way from 10 to 50 is 46.
check_equal 2.5 "$(harness 'quantile([4, 1, 3, 2], 0.5)')" 'a quantile lies between its neighbours'
check_equal 46.0 "$(harness 'quantile([10, 20, 30, 40, 50], 0.9)')" 'and is linear between them'
check_equal 7.0 "$(harness 'quantile([7], 0.99)')" 'a quantile of one number is the number'
# Student's t reaches to 4.303, 3.182 and 2.776 standard errors with 2, 3 and 4 degrees of freedom.
# The errors, relative to the mean, are 0.1 / sqrt(3), 0.1123 / 2 and 0.1581 / sqrt(5).
check_near '-0.248 0.248' "$(student '[18, 20, 22]')" "three runs have the interval of Student's t"
check_near '-0.179 0.179' "$(student '[10, 11, 12, 13]')" 'so have four'
check_near '-0.196 0.196' "$(student '[8, 9, 10, 11, 12]')" 'and five'
# The table of Behrens and Fisher has 2.435 for 6 and 6 degrees of freedom and equal errors:
# 2.435 x 0.2160 x sqrt(2 / 7) = 0.281.
seven='[7, 8, 9, 10, 11, 12, 13]'
ratios="a / b for a, b in zip(drawn_means($seven, 'a'), drawn_means($seven, 'b'))"
check_near '-0.281 0.281' "$(harness "*map(math.log, interval([$ratios]))")" \
    'the ratio of two points has the interval of Behrens and Fisher'
check_equal '(7.0, 7.0)' "$(harness 'interval(drawn_means([7], "a"))')" 'one run has none'
check_equal '(0.0, 0.0)' "$(harness 'interval(drawn_means([0, 0], "a"))')" 'nor have zeros'
power="__import__('harness.power').power"
# exp of (2 x 4.303 + 0.84 sqrt(2)) and of (4.303 + 0.84) sqrt(2), times 0.1 / sqrt(3).
check_equal '1.76 1.522' \
    "$(harness "*(round($power.detectable_ratio(0.1, 3, is_so), 3) for is_so in (False, True))")" \
    'what could have been told allows for few runs'
check_near 2.201 "$(harness "$power.student_quantile(11)")" 'and for many'
check_equal 'wait: all figures are 0' "$(harness "$power.sentence('wait', [[0.0, 0.0]], True)")" \
    'figures of 0 are not called single runs'
draws='drawn_means([1, 2, 3], "a")[:9]'
check_equal "$(harness "$draws")" "$(harness "$draws")" 'the same rows give the same interval'

# The golden rows. Of 18, 20, 22 the interval is 20 exp(-0.248) to 20 exp(0.248).
fresh_rows
check_status 0 'golden rows are analysed' analyse
check_near '20 15.6 25.6' "$(cells here 1 ops_per_s)" 'mean and interval of spread rows'
check_equal '5 5 5' "$(cells here 1 mean_us)" 'equal rows have an interval of no width'
check_near '8 5.86 10.9' "$(cells here 1 p99_us)" 'a percentile is the mean of the runs'
check_equal '1 1 1' "$(cells here 1 ops_per_s_ratio)" 'the base has ratio 1'
check_near '3 2.34 3.85' "$(cells here 2 ops_per_s_ratio)" 'a ratio takes the spread of the base'
check_equal '0.4 0.4 0.4' "$(cells here 2 mean_us_ratio)" 'a ratio of exact rows is exact'
check_equal '1.8 1.8 1.8' "$(cells published 2 ops_per_s_ratio)" 'published figures become ratios'
check_equal '  ' "$(cells published 2 ops_per_s)" 'published figures have no absolute cells'

# The verdict: 60 is apart from about [16, 26] and [35, 45].
check_match \
    'conclusion holds\. .*highest at T = 2 .*×3.00 that of T = 1 \(published ×1.80; .*apart' \
    "$(conclusion)" 'a clear peak holds, with its numbers'
check_match 'Because the rows were made so' "$(conclusion)" 'the reason of that outcome is given'
check_match '1 of 9 runs saw more than 5 %' "$(cat "$results/REPORT.md")" 'noisy runs are counted'
check_match '^\| 2 \| 180 \| 1.80 \| 60 \| 3.00 \[2\.[0-9]+, 3\.[0-9]+\] \|$' \
    "$(cat "$results/REPORT.md")" 'published and own figures stand side by side'
check_match '^\| the only series, with a comma \| 2 \| 2 \| – \|$' "$(cat "$results/REPORT.md")" \
    'a 99th percentile of 60 operations is left out'
sed -i 's/,60,1.0,60,/,1000,1.0,60,/' "$results/raw.csv"
analyse
check_match '^\| the only series, with a comma \| 2 \| 2 \| 9 \|$' "$(cat "$results/REPORT.md")" \
    'one of 1,000 is not'
sed -i 's/,60,2,9,/,22,2,9,/' "$results/raw.csv"
analyse
check_match 'holds in part\. .*Throughput is highest at T = 4.*×2.00 that of T = 1 .*apart' \
    "$(conclusion)" 'a peak that went away holds in part only, for the response time'

# One run a point: how much it scatters is unknown.
fresh_rows
sed -i '/^one,[0-9]*,[23],/d' "$results/raw.csv"
analyse
check_match 'do not decide .*×3.33 that of T = 1 \(published ×1.80; a single run: not decided' \
    "$(conclusion)" 'single runs decide nothing'
check_match '^\| 2 \| 180 \| 1.80 \| 60 \| 3.33 \|$' "$(cat "$results/REPORT.md")" \
    'and have no interval'
check_match 'throughput: one run a point, so no difference' "$(cat "$results/REPORT.md")" \
    'which the report says'

# Trends, by another definition of the same rows.
mkdir "$MQKV_TEST_DIR/trend"
cp "$golden/study/published.csv" "$MQKV_TEST_DIR/trend"
fresh_rows
sed -i 's/,60,2,9,/,39,2,9,/' "$results/raw.csv"
sed 's/^shapes.*/shapes = ops_per_s:peak/' "$golden/study/study.conf" \
    >"$MQKV_TEST_DIR/trend/study.conf"
analyse "$MQKV_TEST_DIR/trend"
check_match 'do not decide .*highest at T = 4 .*no clear difference from it at T = 2' \
    "$(conclusion)" 'a best value at an end is no failed peak, if one within is as good'
fresh_rows
sed 's/^shapes.*/shapes = mean_us:falling/' "$golden/study/study.conf" \
    >"$MQKV_TEST_DIR/trend/study.conf"
analyse "$MQKV_TEST_DIR/trend"
check_match 'holds in part\. .*×0.80 that of T = 1 .*step back to T = 4' "$(conclusion)" \
    'a trend with a step backwards holds in part'
sed -i 's/^shapes.*/shapes = mean_us:rising/' "$MQKV_TEST_DIR/trend/study.conf"
analyse "$MQKV_TEST_DIR/trend"
check_match 'does not hold\. .*in the other direction' "$(conclusion)" 'a trend the other way fails'
sed -i 's/^shapes.*/shapes = ops_per_s:rising/' "$MQKV_TEST_DIR/trend/study.conf"
sed -i 's/,18,5,7,/,10,5,7,/; s/,22,5,9,/,30,5,9,/; s/,38,4,5,/,30,4,5,/; s/,42,4,5,/,50,4,5,/' \
    "$results/raw.csv"
analyse "$MQKV_TEST_DIR/trend"
check_match 'do not decide .*\(published ×1.60; intervals overlap: not decided' "$(conclusion)" \
    'wide intervals decide nothing'
sed -i 's/,10,5,7,/,19,5,7,/; s/,30,5,9,/,21,5,9,/; s/,[345]0,4,5,/,20,4,5,/' "$results/raw.csv"
analyse "$MQKV_TEST_DIR/trend"
check_match 'do not decide .*\(published ×1.60; intervals overlap: not decided' "$(conclusion)" \
    'nor do narrow ones that overlap'
check_match 'told apart four times of five: throughput: ×[0-9.]+ \(runs of a point' \
    "$(cat "$results/REPORT.md")" 'the report says which difference could have been told'
sed '/^\[published\]/,/^$/d; s/^shapes.*/shapes = mean_us:rising/' "$golden/study/study.conf" \
    >"$MQKV_TEST_DIR/trend/study.conf"
analyse "$MQKV_TEST_DIR/trend"
check_match 'the claim does not hold\.' "$(conclusion)" 'without published figures it is a claim'
check_equal '' "$(grep -i 'published conclusion' "$results/REPORT.md")" \
    'and no published conclusion is spoken of'
cp "$golden/study/study.conf" "$MQKV_TEST_DIR/trend/study.conf"
cp "$results/raw.csv" "$MQKV_TEST_DIR/quiet.csv"
python3 - "$results/raw.csv" <<'PYTHON'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="")))
with open(sys.argv[1], "w", newline="") as file:
    writer = csv.DictWriter(file, rows[0])
    writer.writeheader()
    writer.writerows(row | {"foreign_cpu_pct": "40"} for row in rows)
PYTHON
analyse "$MQKV_TEST_DIR/trend"
check_match '^## Conclusion  Nearly all runs were disturbed, so there is no verdict on the pub' \
    "$(conclusion)" 'where all runs were disturbed, there is no verdict'
sed -i 's/^title .*/&\nnoise_limit = 60/' "$MQKV_TEST_DIR/trend/study.conf"
analyse "$MQKV_TEST_DIR/trend"
check_match '0 of 9 runs saw more than 60 %' "$(cat "$results/REPORT.md")" \
    'a study may say which load of others it bears'
busy='machine busy during the runs:\*\* 9 of 9 runs saw more than 5 %'
check_match "$busy" "$(conclusion)" 'but its conclusion warns by the usual limit'
sed -i 's/^noise_limit = 60/noise_limit = 100/' "$MQKV_TEST_DIR/trend/study.conf"
analyse "$MQKV_TEST_DIR/trend"
check_match "$busy" "$(conclusion)" 'also where no run is dropped'
check_match '^## Conclusion  Nearly all runs were disturbed' "$(conclusion)" \
    'and has no verdict, whatever noise the study bears'
check_match '^Each run counts, .*\(median 40\.0 %' "$(cat "$results/REPORT.md")" 'which is said'
check_equal '' "$(grep 'more than 100 %' "$results/REPORT.md")" \
    'and not that no run saw more than all'
cp "$MQKV_TEST_DIR/quiet.csv" "$results/raw.csv"

# Keys that nobody knows.
# mistaken SED ERROR TEXT
mistaken() {
    sed "$1" "$golden/study/study.conf" >"$MQKV_TEST_DIR/trend/study.conf"
    check_status 1 "$3 is refused" analyse "$MQKV_TEST_DIR/trend"
    check_match "study.conf:[0-9]+: $2" "$errors" 'with file and line'
}
mistaken 's/^title /titel /' "\[study\] (needs 'title|has no key 'titel'; is 'title')" \
    'a mistyped key'
mistaken 's/^symbol/symbl/' "\[knob\] has no key 'symbl'; is 'symbol' meant" 'another'
mistaken 's/^\[claim\]/[claims]/' 'unknown section \[claims\]; is .claim. meant' 'a section'
mistaken 's/^repeats .*/&\nkeyz = 7/' '\[profile .*\] keyz: neither a key' \
    'a field that nothing uses'
sed 's/^shapes.*/shapes = ops_per_s:rising/' "$golden/study/study.conf" \
    >"$MQKV_TEST_DIR/trend/study.conf"

# Errors name what is wrong.
sed -i 's/^shapes.*/shapes = ops_per_s:wavy/' "$MQKV_TEST_DIR/trend/study.conf"
check_status 1 'an unknown shape is refused' analyse "$MQKV_TEST_DIR/trend"
check_match "study.conf:[0-9]+: \[claim\] shapes: 'ops_per_s:wavy'" "$errors" \
    'with file, section and value'
sed -i 's/,60,2,9,/,,2,9,/' "$results/raw.csv"
check_status 1 'a cell without a number is refused' analyse
check_match "column 'ops_per_s'" "$errors" 'with the name of its column'
fresh_rows
rm "$results/raw.csv"
check_status 1 'no rows: refused' analyse

# The tics of an x axis.
for tic in '20000 20k' '1000 1k' '50000000 50M' '65536 64Ki' '1048576 1Mi' '100 100' '1500 1500' \
    'a b'; do
    check_equal "${tic#* }" \
        "$(harness "__import__('harness.figure').figure.short('${tic% *}')" | sed 's/^a$/b/')" \
        "${tic% *} is written short"
done

# What is fixed is told in lines of about the same length.
for words in 20 24 45; do
    check_equal True "$(harness "(lambda lines: max(map(len, lines)) <= 118 and
        max(map(len, lines)) - min(map(len, lines)) < 30)(
        __import__('harness.figure').figure._balanced(' '.join(['words'] * $words)))")" \
        "$words words have no line of one"
done

# Groups: the same rows three times, two of them in a group.
grouped=$MQKV_TEST_DIR/grouped
mkdir "$grouped"
sed -e '/^\[published\]/,$d' "$golden/study/study.conf" >"$grouped/study.conf"
cat >>"$grouped/study.conf" <<'END'
[series two]
label = the other
group = few
END
check_status 1 'a group for some series only is refused' analyse "$grouped"
check_match 'every series has a group, or none' "$errors" 'and why'
sed -i 's/^label   = the only.*/&\ngroup = few/' "$grouped/study.conf"
printf '[series three]\nlabel = the other\ngroup = many\n' >>"$grouped/study.conf"
fresh_rows
sed -n 's/^one,/two,/p; s/^one,/three,/p' "$golden/rows/raw.csv" >"$MQKV_TEST_DIR/more"
sed -n 's/^one,/three,/p' "$golden/rows/raw.csv" >>"$MQKV_TEST_DIR/more"
cat "$MQKV_TEST_DIR/more" >>"$results/raw.csv"
check_status 0 'series in groups are analysed' analyse "$grouped"
check_match "array group\[2\] = \['few', 'many'\]" "$(cat "$results/plot.gp")" \
    'each group is named once'
check_match 'array series_style\[3\] = \[1, 2, 1\]' "$(cat "$results/plot.gp")" \
    'and its series are told apart'

# Without a claim the tables name series as the picture does, and compare with nothing.
report=$(cat "$results/REPORT.md")
check_match '^\| many, the other \| 2 \|' "$report" 'a series in a table has group and label'
check_match '^## Figures$' "$report" 'what is not published is not compared with'

# What docs/PERFORMANCE-TABLES.md shows of a study: 60 operations a second at T = 2, at 3000 +
# 2000 us each.
cat >"$MQKV_TEST_DIR/section.py" <<'PYTHON'
import csv, pathlib, sys
from harness import study
from judge import scaling
folder, definition = map(pathlib.Path, sys.argv[1:])
path = folder / "raw.csv"
rows = list(csv.DictReader(open(path, newline="")))
with open(path, "w", newline="") as file:
    cpu = {"server_cpu_us_per_op": "3000", "client_cpu_us_per_op": "2000"}
    writer = csv.DictWriter(file, [*rows[0], "p50_us", *(c for c in cpu if c not in rows[0])])
    writer.writeheader()
    writer.writerows(row | cpu | {"p50_us": row["mean_us"]} for row in rows)
found = study.read(definition)
found.metrics += ["p50_us", *cpu]
print(scaling.section(folder, found, "x.svg"))
PYTHON
section() {
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/experiments python3 "$MQKV_TEST_DIR/section.py" \
        "$results" "$1"
}
text=$(section "$grouped")
check_match '^\| few \| 2 \| 2 / 9; 0.30 \| 2 / 9; 0.30 \|$' "$text" \
    'a line a group, its series side by side'
check_match '^\| many \| 2 \|  \| 2 / 9; 0.30 \|$' "$text" 'and none where a group has none'
fresh_rows
check_match '^\| the only series, with a comma \| 2 \| 60 \| 2 \| 9 \| 3,000 \+ 2,000 \| 0.3 \|$' \
    "$(section "$golden/study")" 'without groups a line a point'
analyse
check_match '^## Beside the published figures$' "$(cat "$results/REPORT.md")" \
    'published figures are'

# Plots.
if command -v gnuplot >/dev/null && command -v rsvg-convert >/dev/null; then
    fresh_rows
    analyse
    check_status 0 'a plot is drawn from summary.csv' draw "$results"
    check_equal '' "$errors" 'gnuplot has nothing to complain about'
    check_match '<svg' "$(head -c 300 "$MQKV_TEST_DIR/golden-rows.svg")" 'as SVG'
    check_match 'the only series, with a comma' "$(cat "$MQKV_TEST_DIR/golden-rows.svg")" \
        'with the series in its key'
    check_equal 'PNG' "$(head -c 4 "$MQKV_TEST_DIR/golden-rows.png" | tail -c 3)" 'as PNG'
    fresh_rows
    cat "$MQKV_TEST_DIR/more" >>"$results/raw.csv"
    analyse "$grouped"
    check_status 0 'groups are drawn' draw "$results"
    check_equal '' "$errors" 'without complaint'
    for text in few many 'the other'; do
        check_match ">$text<" "$(cat "$MQKV_TEST_DIR/golden-rows.svg")" "the picture says: $text"
    done
    # Where three runs scatter, intervals go beyond the frame: an arrow says so, and the points have
    # the room. A time is told to no less than a nanosecond.
    check_status 0 'a plot of runs that scatter is drawn' \
        draw "$root/experiments/results/service-locking/course"
    scattered=$(<"$MQKV_TEST_DIR/service-locking-course.svg")
    check_match "<polygon fill = 'rgb\(154, 154, 154\)'" "$scattered" 'arrows end long intervals'
    check_equal 2 "$(grep -c "<path stroke='rgb(255, 255, 255)'" <<<"$scattered")" \
        'a logarithmic axis that begins with 0 is broken, in both panels'
    check_match 'mean wait for locks, µs' "$scattered" 'short times are in microseconds'
    check_equal 0 "$(grep -c '10⁻' <<<"$scattered")" 'and none is below a nanosecond'
    # Three lines, in panels of one group and of several: each is named.
    for study in wait-clients wait-load; do
        check_status 0 "the plot of $study is drawn" draw "$root/experiments/results/$study/quick"
        for label in 'sleep at once' 'poll for 50' 'the wait rule<'; do
            check_match "$label" "$(cat "$MQKV_TEST_DIR/$study-quick.svg")" "with $label in its key"
        done
    done
else
    skip 'no gnuplot or rsvg-convert: plots not drawn'
fi

# Nobody reads. (Without a buffer, argparse itself passes over the failure, and the status is 0.)
told=$(env -u PYTHONUNBUFFERED python3 - "$root/experiments" <<'PYTHON'
import os, subprocess, sys
for command in ("run", "--list"), ("bench", "--list"), ("analyse", "--help"), ("report", "--help"):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run((sys.argv[1] + "/" + command[0], command[1]), stdout=writer,
                          stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    print(*command, done.returncode, done.stderr)
PYTHON
)
check_equal $'run --list -13 \nbench --list -13 \nanalyse --help -13 \nreport --help -13 ' "$told" \
    'programs whose output nobody reads end by SIGPIPE, without a word'

check_status 0 'draw --help' "$root/plots/draw" --help
check_match '^Draws summaries: plots/draw \[-o DIR\]' "$output" 'tells what it does'
check_equal '' "$errors" 'and nothing else'
check_status 2 'an option that draw does not know is refused' "$root/plots/draw" --frobnicate
