# Latency and the daemon's CPU time over offered load, for the ways to wait. Draws from the summary CSV
# alone. plots/draw sets `summary`, `picture`, `plots`.

load plots."/style.gp"

# The first six columns hold no commas (harness/summary.py): origin, series, knob, runs, seconds, base.
column_of(n) = sprintf("cut -d, -f%d '%s' | tail -n +2", n, summary)
series = system(column_of(2)." | uniq")
rates = system(column_of(3)." | sort -n -u")
runs = system(column_of(4)." | head -n 1")
label_in_row = "[^,]*,[^,]*,[^,]*,[^,]*,\\(\"[^\"]*\"\\|[^,]*\\),.*"
label(name) = system("sed -n 's/^here,".name.",".label_in_row."/\\1/p' '".summary."' | head -n 1 | tr -d '\"'")

x(name) = strcol("series") eq name ? column("rate_per_s") : NaN
cpu_pct(metric) = column(metric) * column("ops_per_s") * 1e-4

LEFT = 0.08; WIDTH = 0.40; RIGHT = 0.58
set bmargin at screen 0.24
set tmargin at screen 0.83
set logscale xy 10
set xtics () font ",11"
do for [i = 1:words(rates)] { set xtics add (gprintf("%.0s%c", word(rates, i) + 0) word(rates, i)) }
set offsets graph 0.05, graph 0.05, 0, 0
set format y "%.0s%c"
set xlabel "operations offered a second" offset 0, 0.4

set multiplot
set lmargin at screen LEFT
set rmargin at screen LEFT + WIDTH
set label 1 "The wait rule over offered load" at screen 0.5, 0.955 center font "DejaVu Sans Bold,19"
set label 2 sprintf("open loop, 5 client threads, values of 64 bytes, half GET, half PUT; means of %s runs, 95 %% bootstrap intervals", runs) at screen 0.5, 0.91 center
set key at screen 0.5, 0.03 center bottom horizontal Left reverse samplen 5
set ylabel "response time, µs" offset 0.5, 0
set label 3 "thick: median, thin: 99th percentile" at screen LEFT, 0.855 left font ",12"
plot for [i = 1:words(series)] summary \
    using (x(word(series, i))):(column("p50_us")):(column("p50_us_low")):(column("p50_us_high")) \
    with yerrorlines linestyle i title label(word(series, i)), \
    for [i = 1:words(series)] summary \
    using (x(word(series, i))):(column("p99_us")):(column("p99_us_low")):(column("p99_us_high")) \
    with yerrorlines linestyle i linewidth 0.8 pointsize 0.5 notitle
unset label 1; unset label 2
unset key

set lmargin at screen RIGHT
set rmargin at screen RIGHT + WIDTH
set ylabel "CPU time of the daemon, % of one CPU" offset 0.5, 0
unset label 3
plot for [i = 1:words(series)] summary \
    using (x(word(series, i))):(cpu_pct("server_cpu_us_per_op")) \
    with linespoints linestyle i
unset multiplot
