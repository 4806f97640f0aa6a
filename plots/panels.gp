# The picture of a study: one to six panels, one a metric, as lines over the knob or as bars, with
# error bars; ratios beside the published ones. All points come from the summary CSV; what they are
# called, and the axes, from plot.gp beside it (harness/figure.py). plots/draw sets `summary`,
# `settings`, `picture` and `plots`.

load settings

panels = |panel_metric|
columns = panels > 1 ? 2 : 1
rows = (panels + columns - 1) / columns
keys = (kind eq "bars" ? |bar_label| : series_count + published_count)
key_columns = 3
entries = keys + (published_count > 0 && kind eq "bars")
# Gnuplot leaves the first of three out of a row of three that is wider than a panel.
key_rows = entries == 3 ? 2 : (entries + key_columns - 1) / key_columns

# Heights in pixels: the title, the rows of panels, the key below all.
TITLE = 96.0
ROW = panels > 2 ? 270.0 : 400.0
KEY = 24.0 + 23.0 * key_rows
height = TITLE + ROW * rows + KEY
load plots."/style.gp"

# The cells of a row that belongs to a series and a value of the knob.
cell(metric, scale) = strlen(strcol(metric)) ? column(metric) * scale : NaN
low(metric, scale) = cell(metric."_low", scale)
high(metric, scale) = cell(metric."_high", scale)
of(origin, i) = strcol("origin") eq origin && strcol("series") eq series[i]

# Lines: series stand side by side, so that their error bars do not hide each other.
first_x = kind eq "lines" ? value[1] + 0.0 : 0
last_x = kind eq "lines" ? value[|value|] + 0.0 : 0
place(i) = 0.012 * (i - (series_count + 1) / 2.0)
aside(x, i) = log_x ? x * (last_x / first_x) ** place(i) : x + (last_x - first_x) * place(i)
line_x(i) = of("here", i) ? aside(column(knob), i) : NaN
published_x(name) = strcol("origin") eq "published" && strcol("series") eq name ? column(knob) : NaN

# Bars: groups on the x axis, those of one group side by side, each with a pattern of its own.
series_at = ""
value_at = ""
do for [i = 1:series_count] { series_at = series_at.series[i]." " }
do for [i = 1:value_count] { value_at = value_at.value[i]." " }
position(names, name) = (p = 0, sum [k = 1:words(names)] (word(names, k) eq name ? (p = k) : 0), p)
series_position(n) = position(series_at, strcol("series"))
value_position(n) = position(value_at, strcol(knob))
group(n) = x_is_series ? series_position(n) : value_position(n)
bar(n) = x_is_series ? value_position(n) : series_position(n)
bars = |bar_label|
groups = |tic_label|
BAR = 0.82 / bars
bar_x(n) = group(n) + (bar(n) - (bars + 1) / 2.0) * BAR
ours_x(j) = strcol("origin") eq "here" && bar(0) == j ? bar_x(0) : NaN
theirs_x(n) = strcol("origin") eq "published" && group(0) > 0 && bar(0) > 0 ? bar_x(0) : NaN
array PATTERN[8] = [3, 4, 0, 2, 5, 1, 6, 7]
array SHADE[8] = ["#303030", "#1f5fbf", "#2e7d32", "#7a2f8f", "#b03a2e", "#00838f", "#8a6d00", "#606060"]
pick(j) = (j - 1) % 8 + 1

y(pixels) = 1.0 - pixels / height
left(p) = 0.075 + (p - 1) % columns * 0.5
width = columns == 2 ? 0.405 : 0.905
top(p) = y(TITLE + 26 + int((p - 1) / columns) * ROW)
bottom(p) = y(TITLE + (int((p - 1) / columns) + 1) * ROW - (kind eq "bars" ? 66 : 54))

if (kind eq "bars") {
    set xrange [0.5:groups + 0.5]
    set xtics () font ",11" scale 0
    do for [k = 1:groups] { set xtics add (tic_label[k] k) }
} else {
    set xtics () font ",11"
    do for [k = 1:value_count] { set xtics add (value[k] value[k] + 0) }
    if (log_x) { set logscale x 2 }
    set offsets graph 0.04, graph 0.04, 0, 0
}
set xlabel x_label offset 0, (kind eq "bars" ? 0.2 : 0.4)

set multiplot
set label 1 heading at screen 0.5, y(30) center font "DejaVu Sans Bold,19"
set label 2 load_text at screen 0.5, y(58) center
set label 3 "Mean of ".runs." runs of ".seconds." s, 95 % bootstrap intervals" at screen 0.5, y(80) center font ",11"
key_at = sprintf("set key at screen 0.5, %g center bottom vertical maxrows %d Left reverse samplen 4 spacing 1.25 width 1", 8 / height, key_rows)
eval key_at
do for [p = 1:panels] {
    if (p > 1) { unset key; unset label 1; unset label 2; unset label 3 }
    set lmargin at screen left(p); set rmargin at screen left(p) + width
    set tmargin at screen top(p); set bmargin at screen bottom(p)
    set label 5 panel_label[p] at screen left(p) - 0.055, top(p) + 13 / height left font "DejaVu Sans Bold,12"
    unset logscale y
    set ytics auto
    set format y "%g"
    set yrange [panel_low[p]:panel_high[p]]
    if (panel_log[p]) {
        set logscale y 10
        set ytics ()
        do for [decade = -6:9] { do for [digit in "1 2 5"] {
            tic = digit * 10.0 ** decade
            if (tic >= panel_low[p] * 0.99 && tic <= panel_high[p]) { set ytics add (sprintf("%g", tic) tic) }
        } }
    }
    unset arrow 1
    if (panel_ratio[p]) { set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead back linecolor rgb "#808080" linewidth 0.8 }
    m = panel_metric[p]
    has_second = panel_second[p] ne ""
    m2 = has_second ? panel_second[p] : m
    s = panel_scale[p]
    theirs = panel_ratio[p] ? published_count : 0
    if (kind eq "bars") {
        plot for [j = 1:bars] summary using (ours_x(j)):(cell(m, s)):(low(m, s)):(high(m, s)):(BAR * 0.94) \
            with boxerrorbars fillstyle pattern PATTERN[pick(j)] linecolor rgb SHADE[pick(j)] linewidth 1 notitle, \
            for [j = 1:bars] NaN with boxes fillstyle pattern PATTERN[pick(j)] linecolor rgb SHADE[pick(j)] title bar_label[j], \
            for [j = 1:theirs > 0] summary using (theirs_x(0)):(cell(m, s)):(BAR * 0.42) \
            with xerrorbars linestyle PUBLISHED_STYLE dashtype solid pointsize 0.5 notitle, \
            for [j = 1:published_count > 0] NaN with points linestyle PUBLISHED_STYLE title "published ratio (another machine)"
    } else {
        plot for [i = 1:series_count] summary using (line_x(i)):(cell(m, s)) \
            with linespoints linestyle i title series_label[i], \
            for [i = 1:series_count] summary using (line_x(i)):(cell(m, s)):(low(m, s)):(high(m, s)) \
            with yerrorbars linestyle i @BARS notitle, \
            for [i = 1:(has_second ? series_count : 0)] summary using (line_x(i)):(cell(m2, s)) \
            with linespoints linestyle i linewidth 0.8 pointsize 0.5 notitle, \
            for [i = 1:(has_second ? series_count : 0)] summary using (line_x(i)):(cell(m2, s)):(low(m2, s)):(high(m2, s)) \
            with yerrorbars linestyle i @BARS pointsize 0.5 notitle, \
            for [i = 1:theirs] summary using (published_x(published[i])):(cell(m, s)) \
            with linespoints linestyle PUBLISHED_STYLE + i - 1 notitle, \
            for [i = 1:published_count] NaN with linespoints linestyle PUBLISHED_STYLE + i - 1 \
            title published_count > 1 ? "published ratio: ".published[i] : "published ratio (another machine)"
    }
}
unset multiplot
