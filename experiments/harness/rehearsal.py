"""Whether a study can run: each of its variants once, for a moment (`experiments/run --check`).

The definition is read with all its checks; then every point of a profile is run with a tiny
measurement, so that a wrong option of the daemon, of the load, or a column that is not there shows
now and not after an hour. Nothing is kept.
"""

from dataclasses import replace

from harness import HarnessError, point

WARMUP_S = 0.05
MEASURE_S = 0.05


def rehearse(study, profile, series, places, tell):
    """Runs every point once; tell(text) gets a line for each that fails, but for
    those that fail like one before. Returns how many points there are, and how many failed."""
    short = replace(
        profile, warmup_s=min(profile.warmup_s, WARMUP_S), measure_s=MEASURE_S, repeats=1
    )
    points = failed = 0
    told = set()
    for one in series:
        for value in profile.values:
            points += 1
            try:
                point.run(study, short, point.Point(one.name, value, 1), places, 1)
            except HarnessError as error:
                failed += 1
                if str(error) not in told:
                    tell(f"{study.series_label(one.name)}, {study.symbol} = {value}: {error}")
                told.add(str(error))
    return points, failed
