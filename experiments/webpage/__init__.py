"""The studies as one HTML page that needs nothing else (experiments/report writes it).

    markup     tags and text; everything that is not ours is escaped here
    markdown   the subset of Markdown that REPORT.md and OPENING.md use
    table      tables that scroll on a phone
    chart      one panel as inline SVG: lines or bars, with error bars
    measured   what a folder of results holds, read from its files
    study      the section of one study
    peers      the comparison with other servers and engines
    opening    the first page: what was learned, machine, table of all studies
    document   all of it, with the style sheet

Standard library only. No script, no font, no picture is loaded from anywhere.
"""
