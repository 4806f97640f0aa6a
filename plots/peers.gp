# mqkv beside its peers: throughput one at a time, in batches and of large values, and the 99th
# percentile. Draws from the summary CSV of experiments/bench alone. plots/draw sets `summary`,
# `picture`, `plots`.

load plots."/style.gp"

SYSTEMS = "mqkv redis memcached echo-shared"
name(i) = word(SYSTEMS, i)
title_of(i) = word("mqkv Redis memcached", i) eq "" ? "raw echo" : word("mqkv Redis memcached", i)

# Patterns differ as well as grey values: a black-and-white print stays readable.
set style line 11 linecolor rgb "#8c8c8c" linewidth 1 dashtype solid
set style line 12 linecolor rgb "#b03a2e" linewidth 1 dashtype solid
set style line 13 linecolor rgb "#1f5fbf" linewidth 1 dashtype solid
set style line 14 linecolor rgb "#404040" linewidth 1 dashtype solid
pattern(i) = i == 1 ? 3 : i == 2 ? 1 : i == 3 ? 2 : 0

# Cases of a panel, as the positions on its x axis.
position(cases, name) = (p = 0, sum [k = 1:words(cases)] (word(cases, k) eq name ? k : 0))
x(cases, case, i, bars) = position(cases, case) + (i - (bars + 1) / 2.0) * 0.8 / bars
wanted(cases, i, metric) = strcol("system") eq name(i) && strcol("column") eq metric && position(cases, strcol("case")) > 0

LEFT = 0.07; RIGHT = 0.57; WIDTH = 0.41; HEIGHT = 0.27
UPPER = 0.565; LOWER = 0.155
panel(left, bottom) = sprintf("set lmargin at screen %g; set rmargin at screen %g; set bmargin at screen %g; set tmargin at screen %g", left, left + WIDTH, bottom, bottom + HEIGHT)
present(cases, metric) = system(sprintf("grep -c -E -e '^(%s),%s,' '%s' || true", alternatives(cases), metric, summary)) + 0
alternatives(cases) = (t = word(cases, 1), sum [k = 2:words(cases)] (t = t."|".word(cases, k), 0), t)
tics(cases, labels) = (t = "", sum [k = 1:words(cases)] (t = t.(word(labels, k) eq "-" ? "" : sprintf("%s'%s' %d", k > 1 ? ", " : "", word(labels, k), k)), 0), sprintf("set xtics (%s); set xrange [0.4:%g]", t, words(cases) + 0.6))

runs = system("cut -d, -f4 '".summary."' | sed -n 2p")
set logscale y 10
set format y "%.0s%c"
set boxwidth 0.8 / 4
set errorbars 0.5 linecolor rgb "#000000" linewidth 1 # seen on bars of any grey value
set key off

bars(cases, metric, count) = sprintf("plot for [i = 1:%d] summary using (wanted('%s', i, '%s') ? x('%s', strcol('case'), i, %d) : NaN):(column('median')):(column('low')):(column('high')):(0.8 / %d) with boxerrorbars linestyle 10 + i fillstyle pattern pattern(i) title title_of(i)", count, cases, metric, cases, count, count)

date = system("sed -n 's/.*\"started_utc\": \"\\([0-9-]*\\)T.*/\\1/p' '".system("dirname '".summary."'")."/manifest.json' 2>/dev/null | head -n 1")
heading(text, left, bottom) = sprintf("set label 5 '%s' at screen %g, screen %g left font 'DejaVu Sans Bold,14'", text, left - LEFT + 0.014, bottom + HEIGHT + 0.035)

# Works of two kinds in one panel, `apart` is the place between them.
no_halves = "unset arrow 1; unset label 6; unset label 7"
two_halves(apart, last) = sprintf("set arrow 1 from first %d, graph 0 to first %d, graph 1.04 nohead back linecolor rgb '#808080' linewidth 1 dashtype (4,4); set label 6 'GET' at first %g, graph 1.03 center; set label 7 'half GET, half PUT' at first %g, graph 1.03 center", apart, apart, (1 + apart - 1) / 2.0, (apart + 1 + last) / 2.0)

set multiplot
set label 1 "mqkv beside its peers" at screen 0.5, 0.965 center font "DejaVu Sans Bold,19"
set label 2 sprintf("Medians of %s runs%s, error bars span all runs; two CPUs, values of 64 bytes unless stated, nothing kept on disk", runs, date eq "" ? "" : " of ".date) at screen 0.5, 0.93 center

single = "get-1 get-5 get-50 get-50p - mix-1 mix-5 mix-50 mix-50p"
single_labels = "1 5 50 50p - 1 5 50 50p"
eval panel(LEFT, UPPER)
eval heading("One operation at a time", LEFT, UPPER)
set ylabel "operations/s"
set xlabel "clients (p: processes)" offset 0, 0.4
eval tics(single, single_labels)
eval two_halves(5, 9)
set key at screen 0.5, 0.015 center bottom horizontal maxrows 1 Left reverse samplen 3
if (present(single, "ops_per_s")) { eval bars(single, "ops_per_s", 4) }
unset label 1; unset label 2; unset key; set key off
eval no_halves

batches = "batch16-1 batch16-5 batch16-50"
eval panel(RIGHT, UPPER)
eval heading("Sixteen operations a message", RIGHT, UPPER)
set xlabel "clients"
eval tics(batches, "1 5 50")
if (present(batches, "ops_per_s")) { eval bars(batches, "ops_per_s", 4) }

values = "value-4k-1 value-4k-5 value-64k-1 value-64k-5 value-1m-1 value-1m-5"
eval panel(LEFT, LOWER)
eval heading("Large values, half GET, half PUT", LEFT, LOWER)
set ylabel "MB/s"
set xlabel "value size, clients"
eval tics(values, "4K,1 4K,5 64K,1 64K,5 1M,1 1M,5")
if (present(values, "megabytes_per_s")) { eval bars(values, "megabytes_per_s", 4) }

# 99th percentiles of the first panel's works.
eval panel(RIGHT, LOWER)
eval heading("99th percentile, one operation at a time", RIGHT, LOWER)
set ylabel "µs"
set xlabel "clients (p: processes)"
eval tics(single, single_labels)
eval two_halves(5, 9)
if (present(single, "p99_us")) { eval bars(single, "p99_us", 4) }
unset multiplot
