# The picture of a study: one to six panels, one a metric, as lines over the knob or as bars, with
# error bars; ratios beside the published ones. Where series have groups, a metric is a row of panels,
# one a group. All points come from the summary CSV; what they are called, and the axes, from plot.gp
# beside it (harness/figure.py). plots/draw sets `summary`, `settings`, `picture` and `plots`.

# With `only` (and `only_group`, where there are groups) it draws that panel alone, as a slide of 1280 x 720
# whose letters have at least 24 pixels (18 pt).

load settings

if (!exists("only")) { only = 0; only_group = 1 }
slide = only > 0
panels = |panel_metric|
grouped = group_count > 1 && !slide
columns = slide ? 1 : grouped ? group_count : panels > 1 ? 2 : 1
rows = slide ? 1 : grouped ? panels : (panels + columns - 1) / columns
PAGE = slide ? 1280 : 1120 # pixels
TEXT = slide ? 24 : 13
SMALL = slide ? 24 : 11
BOLD = slide ? 24 : 12
HEADING = slide ? (strlen(heading) > 52 ? 28 : 34) : 19
bold(size) = sprintf("DejaVu Sans Bold,%d", size)
plain(size) = sprintf(",%d", size)
of_group = 1 # the most series that a group has; those of one style have one name
do for [i = 1:series_count] { of_group = series_style[i] > of_group ? series_style[i] : of_group }
array line_label[of_group]
do for [i = 1:series_count] { line_label[series_style[i]] = series_label[i] }
# The key: our lines or bars, then the published ones. Gnuplot's own would be as narrow as a panel.
our_keys = kind eq "bars" ? |bar_label| : of_group
if (!exists("theory_label")) theory_label = "" # of results from before there was a theory
with_theory = kind eq "lines" && theory_label ne ""
theirs_shown = slide && !panel_ratio[only] ? 0 : published_count # a slide of one panel names what is in it
keys = our_keys + (kind eq "bars" ? theirs_shown > 0 : theirs_shown) + with_theory
array key_label[keys]
longest = 0
do for [k = 1:keys] {
    key_label[k] = with_theory && k == keys ? theory_label : k > our_keys ? (published_count > 1 && kind eq "lines" ? "published ratio: ".published_label[k - our_keys] : "published ratio (another machine)") : kind eq "bars" ? bar_label[k] : line_label[k]
    longest = strlen(key_label[k]) > longest ? strlen(key_label[k]) : longest
}
KEY_WIDTH = 90.0 + (slide ? 13.0 : 7.6) * longest # pixels of an entry: its sample, words, a gap
key_columns = int((PAGE - 20) / KEY_WIDTH)
key_columns = key_columns > 4 ? 4 : key_columns < 1 ? 1 : key_columns
key_columns = key_columns > keys ? keys : key_columns
key_rows = (keys + key_columns - 1) / key_columns

# Heights in pixels: the title, the rows of panels, the key below all, or in the place of a panel that is not there.
in_gap = columns == 2 && panels % 2 == 1
if (in_gap) { key_columns = 1; key_rows = keys }
KEY_ROW = slide ? 36.0 : 23.0
KEY = (slide ? 14.0 : 24.0) + KEY_ROW * key_rows
if (!exists("load_lines")) load_lines = 1 # of results from before long ones were broken
TITLE = slide ? 100.0 : 78.0 + 18.0 * load_lines
ROW = slide ? 720.0 - TITLE - KEY : rows > 2 ? 270.0 : columns > 2 ? 330.0 : panels > 2 ? 270.0 : 400.0
height = TITLE + ROW * rows + (in_gap ? 8 : KEY)
load plots."/style.gp"

# The cells of a row that belongs to a series and a value of the knob.
cell(metric, scale) = strlen(strcol(metric)) ? column(metric) * scale : NaN
low(metric, scale) = cell(metric."_low", scale)
high(metric, scale) = cell(metric."_high", scale)
zero(metric) = strcol("origin") eq "here" && strlen(strcol(metric)) && column(metric) * s < (panel_log[p] ? panel_low[p] : 1e-300)
zero_text(metric) = column(metric) > 0 ? "<" : "0"
of(origin, i) = strcol("origin") eq origin && strcol("series") eq series[i]

# Lines: series stand side by side, so that their error bars do not hide each other.
first_x = kind eq "lines" ? value[1] + 0.0 : 0
last_x = kind eq "lines" ? value[|value|] + 0.0 : 0
if (kind eq "lines") { do for [k = 1:value_count] {
    first_x = value[k] < first_x ? value[k] + 0.0 : first_x
    last_x = value[k] > last_x ? value[k] + 0.0 : last_x
} }
SIDE = 0.06 # of the width, left and right of the first and the last value
shifted(x, share) = log_x ? x * (last_x / first_x) ** share : x + (last_x - first_x) * share
place(i) = 0.006 * (series_style[i] - (of_group + 1) / 2.0)
aside(x, i) = shifted(x, place(i))
# A panel of published ratios has only the series that have them.
if (!exists("panel_published")) { # of results from before there was one
    array panel_published[panels]; array series_published[series_count]
    do for [k = 1:panels] { panel_published[k] = 0 }
    do for [i = 1:series_count] { series_published[i] = 0 }
}
drawn(i) = !panel_published[p] || series_published[i]
line_x(i) = of("here", i) && drawn(i) ? aside(column(knob), i) : NaN
theory_x(i) = of("theory", i) ? column(knob) : NaN
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
array SHADE[8] = ["#9a9a9a", "#1f5fbf", "#2e7d32", "#7a2f8f", "#b03a2e", "#00838f", "#8a6d00", "#606060"]
array DOT[8] = [7, 5, 9, 11, 13, 4, 6, 8]
pick(j) = (j - 1) % 8 + 1

# Panels are counted row by row. Those of a row of groups have one axis, at the left.
y(pixels) = 1.0 - pixels / height
margin = slide ? 0.09 : grouped ? 0.06 : 0.075
each = slide ? 0.91 : columns == 1 ? 0.925 : columns == 2 ? 0.5 : (1 - margin) / columns
width = each - (columns == 1 ? 0.02 : columns == 2 ? 0.095 : 0.02)
left(at) = margin + (at - 1) % columns * each
top(at) = y(TITLE + (slide ? 46 : grouped ? 44 : 26) + int((at - 1) / columns) * ROW)
bottom(at) = y(TITLE + (int((at - 1) / columns) + 1) * ROW - (slide ? (kind eq "bars" ? 130 : 112) : kind eq "bars" ? 66 : 54))

if (kind eq "bars") {
    set errorbars linecolor rgb "#000000" linewidth 1 # seen on bars of any grey value
    set xrange [0.5:groups + 0.5]
    x_font = plain(SMALL)
    set xtics () font x_font scale 0
    do for [k = 1:groups] { set xtics add (tic_label[k] k) }
} else {
    x_font = columns > 2 ? ",9" : plain(SMALL)
    set xtics () font x_font
    do for [k = 1:value_count] { set xtics add (tic_label[k] value[k] + 0) }
    if (log_x) { set logscale x 2 }
    if (last_x > first_x) { set xrange [shifted(first_x, -SIDE):shifted(last_x, SIDE)] }
}
broken_at = 0
if (kind eq "lines" && log_x && value_count > 1) { if (tic_label[1] eq "0") { broken_at = sqrt(value[1] * value[2]) } }
set xlabel x_label offset 0, (kind eq "bars" ? 0.2 : 0.4)

set multiplot
of_runs = "Mean of ".runs." runs of ".seconds." s, 95 % intervals (Student's t)"
if (slide) {
    set label 1 heading at screen 0.5, y(38) center font bold(HEADING)
    set label 2 (group_count > 1 ? group[only_group].": " : "").of_runs at screen 0.5, y(80) center font plain(SMALL)
} else {
    set label 1 heading at screen 0.5, y(30) center font bold(HEADING)
    set label 2 load_text at screen 0.5, y(58) center
    set label 3 of_runs at screen 0.5, y(62 + 18 * load_lines) center font plain(SMALL)
}
set key off
do for [p = (slide ? only : 1):(slide ? only : panels)] { do for [g = (slide ? only_group : 1):(slide ? only_group : grouped ? group_count : 1)] {
    at = slide ? 1 : grouped ? (p - 1) * columns + g : p
    if (at > 1) { unset label 1; unset label 2; unset label 3 }
    set lmargin at screen left(at); set rmargin at screen left(at) + width
    set tmargin at screen top(at); set bmargin at screen bottom(at)
    if (g == 1 || slide) {
        set label 5 panel_label[p] at screen left(at) - margin + 0.02, top(at) + (slide ? 26 : grouped ? 31 : 13) / height left font bold(BOLD)
    } else { unset label 5 }
    if (grouped) { set label 6 group[g] at graph 0.5, screen top(at) + 11 / height center font ",12" }
    unset logscale y
    set format y "%g"
    set yrange [panel_low[p]:panel_high[p]]
    if (panel_log[p]) { set logscale y 10 }
    eval sprintf("set ytics (%s)", g == 1 || slide ? panel_tics[p] : panel_grid[p])
    # Zero has no place on a logarithmic axis: the axis is broken behind it.
    if (broken_at > 0) {
        set arrow 2 from first broken_at, graph 0 to first shifted(broken_at, 0.012), graph 0 nohead front linecolor rgb "#ffffff" linewidth 5
        do for [k = 0:1] { set arrow 3 + k from first shifted(broken_at, 0.012 * k - 0.005), graph -0.022 to first shifted(broken_at, 0.012 * k + 0.005), graph 0.022 nohead front linecolor rgb "#000000" linewidth 0.8 }
    }
    unset arrow 1
    if (panel_ratio[p]) { set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead back linecolor rgb "#808080" linewidth 0.8 }
    m = panel_metric[p]
    has_second = panel_second[p] ne ""
    m2 = has_second ? panel_second[p] : m
    s = panel_scale[p]
    theirs = panel_ratio[p] ? published_count : 0
    # A log axis has no zero: a figure of 0 is marked at its lower end; bars have no length there and are dots.
    floor = panel_log[p] ? panel_low[p] * 1.02 : 0
    # An interval that leaves the frame ends in an arrow.
    top_y = panel_high[p]; low_y = panel_low[p]
    head = panel_log[p] ? (top_y / low_y) ** 0.035 : 0.035 * (top_y - low_y)
    from_top = panel_log[p] ? top_y / head : top_y - head
    from_low = panel_log[p] ? low_y * head : low_y + head
    inside(m) = cell(m, s) >= low_y && cell(m, s) <= top_y
    up(m) = inside(m) && high(m, s) > top_y ? from_top : NaN
    down(m) = inside(m) && panel_log[p] && low(m, s) < low_y ? from_low : NaN
    if (kind eq "bars") {
        as_dots = panel_log[p]
        plot for [j = 1:(as_dots ? 0 : bars)] summary using (ours_x(j)):(cell(m, s)):(low(m, s)):(high(m, s)):(BAR * 0.94) \
            with boxerrorbars fillstyle pattern PATTERN[pick(j)] linecolor rgb SHADE[pick(j)] linewidth 1, \
            for [j = 1:(as_dots ? bars : 0)] summary using (ours_x(j)):(cell(m, s)):(low(m, s)):(high(m, s)) \
            with yerrorbars linecolor rgb SHADE[pick(j)] linewidth 1.5 pointtype DOT[pick(j)] pointsize (slide ? 1.1 : 0.9), \
            for [j = 1:bars] summary using (ours_x(j)):(up(m)):(0):(top_y - from_top) \
            with vectors filled head size screen 0.009, 25 linecolor rgb (as_dots ? SHADE[pick(j)] : "#000000") linewidth 1, \
            for [j = 1:theirs > 0] summary using (theirs_x(0) - BAR * 0.42):(cell(m, s)):(BAR * 0.84):(0) \
            with vectors nohead linestyle PUBLISHED_STYLE dashtype solid, \
            for [j = 1:theirs > 0] summary using (theirs_x(0)):(cell(m, s)) \
            with points linestyle PUBLISHED_STYLE pointsize 0.7, \
            for [j = 1:bars] summary using (ours_x(j)):(zero(m) ? floor : NaN):(zero_text(m)) \
            with labels font plain(SMALL) offset 0, 0.6
    } else {
        plot for [i = 1:series_count] summary using (line_x(i)):(series_group[i] == g ? cell(m, s) : NaN):(low(m, s)):(high(m, s)) \
            with yerrorbars linecolor rgb INTERVAL @BARS pointtype -2, \
            for [i = 1:(has_second ? series_count : 0)] summary using (line_x(i)):(series_group[i] == g ? cell(m2, s) : NaN):(low(m2, s)):(high(m2, s)) \
            with yerrorbars linecolor rgb INTERVAL @BARS pointtype -2, \
            for [i = 1:series_count] summary using (line_x(i)):(series_group[i] == g ? up(m) : NaN):(0):(top_y - from_top) \
            with vectors filled head size screen 0.009, 25 linecolor rgb INTERVAL @BARS, \
            for [i = 1:series_count] summary using (line_x(i)):(series_group[i] == g ? down(m) : NaN):(0):(low_y - from_low) \
            with vectors filled head size screen 0.009, 25 linecolor rgb INTERVAL @BARS, \
            for [i = 1:series_count] summary using (line_x(i)):(series_group[i] == g ? cell(m, s) : NaN) \
            with linespoints linestyle series_style[i], \
            for [i = 1:(has_second ? series_count : 0)] summary using (line_x(i)):(series_group[i] == g ? cell(m2, s) : NaN) \
            with linespoints linestyle series_style[i] linewidth 0.8 pointsize 0.5, \
            for [i = 1:theirs] summary using (published_x(published[i])):(published_group[i] == g ? cell(m, s) : NaN) \
            with linespoints linestyle PUBLISHED_STYLE + i - 1, \
            for [i = 1:(with_theory ? series_count : 0)] summary using (theory_x(i)):(series_group[i] == g ? cell(m, s) : NaN) \
            with lines linestyle series_style[i] linewidth 0.7 dashtype solid, \
            for [i = 1:(panel_log[p] ? series_count : 0)] summary using (line_x(i)):(series_group[i] == g && zero(m) ? floor : NaN):(zero_text(m)) \
            with labels font plain(SMALL) offset 0, 0.6, \
            for [i = 1:(panel_log[p] ? series_count : 0)] summary using (line_x(i)):(series_group[i] == g && zero(m) ? floor : NaN) \
            with points linestyle series_style[i]
    }
} }

# The key, in a panel without axes over the whole width, which is measured in pixels.
logs = 0
do for [p = (slide ? only : 1):(slide ? only : panels)] { logs = logs + panel_log[p] }
some_dots = logs > 0
dots_only = logs == (slide ? 1 : panels)
unset label; unset arrow; unset xlabel; unset tics; unset border; unset grid; unset logscale
set lmargin at screen 0; set rmargin at screen 1
area = in_gap ? ROW : KEY
set bmargin at screen 0; set tmargin at screen area / height
set xrange [0:PAGE]; set yrange [0:area]
do for [k = 1:keys] {
    from = in_gap ? left(panels + 1) * PAGE : (PAGE - key_columns * KEY_WIDTH + 30) / 2 + (k - 1) % key_columns * KEY_WIDTH
    middle = area - (slide ? 18 : in_gap ? 40 : 16) - (in_gap ? 28 : KEY_ROW) * int((k - 1) / key_columns)
    thin = with_theory && k == keys
    style = thin ? 1 : k > our_keys ? PUBLISHED_STYLE + k - our_keys - 1 : k
    if (kind eq "bars" && k <= our_keys && dots_only) {
        set label keys + k "" at from + 23, middle point pointtype DOT[pick(k)] pointsize (slide ? 1.1 : 0.9) linecolor rgb SHADE[pick(k)]
    } else { if (kind eq "bars" && k <= our_keys) {
        if (some_dots) { set label keys + k "" at from - 12, middle point pointtype DOT[pick(k)] pointsize 0.9 linecolor rgb SHADE[pick(k)] }
        set object k rectangle from from, middle - 7 to from + 46, middle + 7 fillstyle pattern PATTERN[pick(k)] border linecolor rgb SHADE[pick(k)] fillcolor rgb SHADE[pick(k)]
    } else {
        if (kind eq "lines" && !thin) { set arrow k from from, middle to from + 46, middle nohead linestyle style }
        if (thin) { set arrow k from from, middle to from + 46, middle nohead linestyle 1 linewidth 0.7 }
        if (!thin) { set label keys + k "" at from + 23, middle point linestyle style }
    } }
    set label k key_label[k] at from + 54, middle left
}
plot NaN notitle
unset multiplot
