# What all plots share: how the CSV is read, fonts, and line styles that differ in dash, point and
# grey value as well as in colour, so that a black-and-white print stays readable.

set datafile separator comma
set datafile columnheaders
set encoding utf8

if (!exists("height")) height = 700
if (!exists("slide")) slide = 0
if (slide) {
    set terminal svg size 1280,720 font "DejaVu Sans,24" noenhanced background rgb "white" linewidth 2
} else {
    set terminal svg size 1120,height font "DejaVu Sans,13" noenhanced background rgb "white" linewidth 1.2
}
set output picture

set style line 1 linecolor rgb "#000000" linewidth 2 dashtype solid pointtype 7 pointsize 0.8
set style line 2 linecolor rgb "#1f5fbf" linewidth 2 dashtype (12,5) pointtype 8 pointsize 1.0
set style line 3 linecolor rgb "#7a2f8f" linewidth 2 dashtype (4,4) pointtype 12 pointsize 1.0
set style line 4 linecolor rgb "#2e7d32" linewidth 2 dashtype (14,4,3,4) pointtype 10 pointsize 1.0
set style line 5 linecolor rgb "#00838f" linewidth 2 dashtype (8,3) pointtype 3 pointsize 1.0
set style line 6 linecolor rgb "#b03a2e" linewidth 2 dashtype (2,3) pointtype 9 pointsize 1.0
set style line 7 linecolor rgb "#8a6d00" linewidth 2 dashtype (16,3) pointtype 5 pointsize 0.8
set style line 8 linecolor rgb "#606060" linewidth 2 dashtype (6,3,1,3,1,3) pointtype 13 pointsize 1.0
PUBLISHED_STYLE = 11 # and the next ones, for the published figures
set style line 11 linecolor rgb "#d35400" linewidth 2 dashtype (2,4) pointtype 4 pointsize 1.1
set style line 12 linecolor rgb "#d35400" linewidth 2 dashtype (8,4,2,4) pointtype 6 pointsize 1.1
set style line 13 linecolor rgb "#d35400" linewidth 2 dashtype (1,3) pointtype 1 pointsize 1.1
set style line 14 linecolor rgb "#d35400" linewidth 2 dashtype (12,3) pointtype 2 pointsize 1.1

set border 3 linewidth 0.8
set tics nomirror out scale 0.6
set grid ytics linecolor rgb "#d8d8d8" linewidth 0.6 dashtype solid
set style fill pattern border
set errorbars 0.8
INTERVAL = "#9a9a9a" # intervals stand behind the lines
BARS = "linewidth 0.8 dashtype solid"
