# One knob swept: throughput and response time with error bars, and both relative to one value of
# the knob, beside the published figures. Draws from the summary CSV alone. plots/draw sets `summary`,
# `picture`, `plots` and `study`; a study's own script may set beforehand:
#   heading, load_text   the title, and what is the same at every point
#   knob_label, symbol   the x axis with its unit, and the knob's short name
#   wide_range           1: logarithmic axes, for knobs and answers over several powers of ten

load plots."/style.gp"

# From the CSV, whose first six columns hold no commas: the knob's name and values, the series and
# their labels, repeats and time of a run, the value that ratios are relative to.
field(n) = sprintf("cut -d, -f%d '%s'", n, summary)
first_row(n) = system(field(n)." | sed -n 2p")
knob = system(field(3)." | head -n 1")
values = system(field(3)." | tail -n +2 | sort -n -u")
series = system("sed -n 's/^here,\\([^,]*\\),.*/\\1/p' '".summary."' | uniq")
label_in_row = "[^,]*,[^,]*,[^,]*,[^,]*,\\(\"[^\"]*\"\\|[^,]*\\),.*"
label(name) = system("sed -n 's/^here,".name.",".label_in_row."/\\1/p' '".summary."' | head -n 1 | tr -d '\"'")
published = system("grep -c -m 1 '^published,' '".summary."' || true") + 0
tail = system("head -n 1 '".summary."' | grep -o -w p99_us || echo mean_us")
runs = first_row(4)
seconds = first_row(5)
base = first_row(6)

if (!exists("heading")) heading = study
if (!exists("load_text")) load_text = ""
if (!exists("knob_label")) knob_label = knob
if (!exists("symbol")) symbol = knob
if (!exists("wide_range")) wide_range = 0

# The cells of a row that belongs to the i-th series, else nothing. Series stand side by side, so
# that their error bars do not hide each other.
first_x = word(values, 1) + 0.0
last_x = word(values, words(values)) + 0.0
place(i) = 0.012 * (i - (words(series) + 1) / 2.0)
aside(x, i) = wide_range ? x * (last_x / first_x) ** place(i) : x + (last_x - first_x) * place(i)
mine(i) = strcol("origin") eq "here" && strcol("series") eq word(series, i)
x(i) = mine(i) ? aside(column(knob), i) : NaN
cell(metric, scale) = strlen(strcol(metric)) ? column(metric) * scale : NaN
low(metric, scale) = cell(metric."_low", scale)
high(metric, scale) = cell(metric."_high", scale)
published_x(row) = strcol("origin") eq "published" ? column(knob) : NaN

# Four panels with one height and width; the key of each lies in the strip below all of them.
LEFT = 0.08; RIGHT = 0.58; WIDTH = 0.40; HEIGHT = 0.30
UPPER = 0.555; LOWER = 0.195; KEYS = 0.015
panel(left, bottom) = sprintf("set lmargin at screen %g; set rmargin at screen %g;", left, left + WIDTH) \
    .sprintf("set bmargin at screen %g; set tmargin at screen %g", bottom, bottom + HEIGHT)
key_at(left) = sprintf("set key at screen %g, %g left bottom vertical maxrows 3", left, KEYS) \
    ." Left reverse samplen 5 spacing 1.25"

set xtics () font ",11"
do for [i = 1:words(values)] { set xtics add (word(values, i) word(values, i)) }
if (wide_range) set logscale x 2
set offsets graph 0.04, graph 0.04, graph 0.08, 0

set multiplot

# Upper left: throughput.
eval panel(LEFT, UPPER)
eval key_at(LEFT)
set label 1 heading at screen 0.5, 0.965 center font "DejaVu Sans Bold,19"
set label 2 load_text at screen 0.5, 0.925 center
set label 3 sprintf("Here: mean of %s runs of %s s, 95 %% bootstrap intervals", runs, seconds) \
    at screen LEFT, 0.88 left font "DejaVu Sans Bold,14"
set label 4 sprintf("Relative to %s = %s", symbol, base) \
    at screen RIGHT, 0.88 left font "DejaVu Sans Bold,14"
set ylabel "throughput, 1,000 requests/s" offset 0.5, 0
set yrange [0:*]
plot for [i = 1:words(series)] summary using (x(i)):(cell("ops_per_s", 1e-3)) \
    with linespoints linestyle i title label(word(series, i)), \
    for [i = 1:words(series)] summary \
    using (x(i)):(cell("ops_per_s", 1e-3)):(low("ops_per_s", 1e-3)):(high("ops_per_s", 1e-3)) \
    with yerrorbars linestyle i @BARS notitle
unset label 1; unset label 2; unset label 3; unset label 4

# Lower left: response time, mean and 99th percentile, far apart: hence always logarithmic.
eval panel(LEFT, LOWER)
unset key
set xlabel knob_label offset 0, 0.4
set ylabel "response time, µs" offset 0.5, 0
set logscale y 10
set yrange [*:*] noextend
set offsets graph 0.04, graph 0.04, graph 0.08, graph 0.08
set ytics ()
do for [decade = 0:7] { do for [digit in "1 2 5"] { set ytics add (digit * 10 ** decade) } }
lines_are = "response time: ".(tail eq "p99_us" ? "thick lines mean, thin 99th percentile" : "mean")
set label 1 lines_are at screen LEFT + WIDTH, KEYS + 0.085 right font ",11"
plot for [i = 1:words(series)] summary using (x(i)):(cell("mean_us", 1)) \
    with linespoints linestyle i, \
    for [i = 1:words(series)] summary \
    using (x(i)):(cell("mean_us", 1)):(low("mean_us", 1)):(high("mean_us", 1)) \
    with yerrorbars linestyle i @BARS, \
    for [i = 1:words(series)] summary using (x(i)):(cell(tail, 1)) \
    with linespoints linestyle i linewidth 0.8 pointsize 0.5, \
    for [i = 1:words(series)] summary \
    using (x(i)):(cell(tail, 1)):(low(tail, 1)):(high(tail, 1)) \
    with yerrorbars linestyle i @BARS pointsize 0.5
unset label 1
set ytics auto

# Upper right: throughput relative to the base.
eval panel(RIGHT, UPPER)
eval key_at(RIGHT)
unset xlabel
set ylabel "throughput, ratio" offset 0.5, 0
if (wide_range) {
    set logscale y 2
} else {
    unset logscale y
    set yrange [0:*]
    set offsets graph 0.04, graph 0.04, graph 0.08, 0
}
plot for [i = 1:words(series)] summary using (x(i)):(cell("ops_per_s_ratio", 1)) \
    with linespoints linestyle i notitle, \
    for [i = 1:words(series)] summary \
    using (x(i)):(cell("ops_per_s_ratio", 1)):(low("ops_per_s_ratio", 1)):(high("ops_per_s_ratio", 1)) \
    with yerrorbars linestyle i @BARS notitle, \
    for [i = 1:published] summary using (published_x(0)):(cell("ops_per_s_ratio", 1)) \
    with linespoints linestyle PUBLISHED_STYLE title "published (another machine)"

# Lower right: response time relative to the base.
eval panel(RIGHT, LOWER)
unset key
set xlabel knob_label offset 0, 0.4
set ylabel "mean response time, ratio" offset 0.5, 0
plot for [i = 1:words(series)] summary using (x(i)):(cell("mean_us_ratio", 1)) \
    with linespoints linestyle i, \
    for [i = 1:words(series)] summary \
    using (x(i)):(cell("mean_us_ratio", 1)):(low("mean_us_ratio", 1)):(high("mean_us_ratio", 1)) \
    with yerrorbars linestyle i @BARS, \
    for [i = 1:published] summary using (published_x(0)):(cell("mean_us_ratio", 1)) \
    with linespoints linestyle PUBLISHED_STYLE

unset multiplot
