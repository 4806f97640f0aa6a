"""The studies as one HTML page that needs nothing else (experiments/report writes it).

    markup     tags and text; everything that is not ours is escaped here
    markdown   REPORT.md and OPENING.md as HTML, parsed by cmark-gfm
    table      tables that scroll on a phone
    picture    what plots/draw draws of a summary
    measured   what a folder of results holds, read from its files
    study      the section of one study
    peers      the comparison with other servers and engines
    opening    the first page: what was learned, machine, table of all studies
    document   all of it, with the style sheet

No script, no font, no picture is loaded from anywhere.
"""
