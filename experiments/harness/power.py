"""Which difference could have been told with so many runs and this spread: the minimum detectable
ratio of two points.

Two points differ clearly if their 95 % intervals do not overlap. With runs that scatter by c (their
standard deviation, relative to the mean) each interval reaches 1.96 c / sqrt(n) to either side, and
the difference of two means scatters by c sqrt(2 / n). So a true difference shows with a probability
of 80 % (0.84 standard deviations) if it is at least (2 x 1.96 + 0.84 sqrt(2)) c / sqrt(n) of the
mean. Bootstrap intervals of few runs are a little narrower than that.
"""

import math
import statistics

REACH = 2 * 1.96 + 0.84 * math.sqrt(2)


def detectable_ratio(spread, runs):
    """The least ratio that would have been told; None with a single run."""
    return None if runs < 2 else 1 + REACH * spread / math.sqrt(runs)


def spreads(runs_of_points):
    """Of each point, given as its figures: the relative standard deviation. Points with one run,
    or with mean 0, have none."""
    found = []
    for numbers in runs_of_points:
        mean = sum(numbers) / len(numbers)
        if len(numbers) > 1 and mean:
            found.append(statistics.stdev(numbers) / abs(mean))
    return found


def sentence(name, runs_of_points):
    """A note for the report on one metric; runs_of_points: the figures of each point's runs."""
    found = spreads(runs_of_points)
    if not found:
        return f"{name}: one run a point, so no difference can be told from chance"
    runs = min(len(numbers) for numbers in runs_of_points if len(numbers) > 1)
    usual = detectable_ratio(statistics.median(found), runs)
    worst = detectable_ratio(max(found), runs)
    return (
        f"{name}: ×{usual:.2f} (runs of a point scatter by"
        f" {100 * statistics.median(found):.2g} %), ×{worst:.2f} between points that scatter most"
    )
