"""Which difference could have been told with so many runs and this spread: the minimum detectable
ratio of two points.

Runs of a point scatter by c (their standard deviation, relative to the mean), so the logarithm of
its mean by c / sqrt(n), and that of the ratio of two points by c sqrt(2 / n). A true difference
shows with a probability of 80 % (0.84 standard deviations) if it is so much larger than what the
intervals of harness.summary span, with t the quantile of Student's t:

    two intervals must not overlap   2 t c / sqrt(n) + 0.84 c sqrt(2 / n)
    that of the ratio must miss 1    (t + 0.84) c sqrt(2 / n), about
"""

import math
import statistics

POWER_DEVIATIONS = 0.84
NORMAL = 1.959964  # 97.5 % of a normal distribution lie below
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)  # and of t's


def student_quantile(degrees):
    """Below which 97.5 % of Student's t lie. Beyond the table by the expansion for many degrees
    (Abramowitz and Stegun: Handbook of Mathematical Functions, 1964, 26.7.5)."""
    if degrees <= len(STUDENT):
        return STUDENT[degrees - 1]
    first = (NORMAL**3 + NORMAL) / 4
    second = (5 * NORMAL**5 + 16 * NORMAL**3 + 3 * NORMAL) / 96
    return NORMAL + first / degrees + second / degrees**2


def detectable_ratio(spread, runs, is_of_ratio):
    """The least ratio that would have been told; None with a single run. is_of_ratio: by the
    interval of the ratio, not by two intervals that do not overlap."""
    if runs < 2:
        return None
    reach = student_quantile(runs - 1)
    factor = reach * math.sqrt(2) if is_of_ratio else 2 * reach
    factor += POWER_DEVIATIONS * math.sqrt(2)
    return math.exp(factor * spread / math.sqrt(runs))


def spreads(runs_of_points):
    """Of each point, given as its figures: the relative standard deviation. Points with one run,
    or with mean 0, have none."""
    found = []
    for numbers in runs_of_points:
        mean = sum(numbers) / len(numbers)
        if len(numbers) > 1 and mean:
            found.append(statistics.stdev(numbers) / abs(mean))
    return found


def sentence(name, runs_of_points, is_of_ratio):
    """A note for the report on one metric; runs_of_points: the figures of each point's runs."""
    repeated = [numbers for numbers in runs_of_points if len(numbers) > 1]
    found = spreads(repeated)
    if not repeated:
        return f"{name}: one run a point, so no difference can be told from chance"
    if not found:
        return f"{name}: all figures are 0"
    runs = min(map(len, repeated))
    usual = detectable_ratio(statistics.median(found), runs, is_of_ratio)
    worst = detectable_ratio(max(found), runs, is_of_ratio)
    return (
        f"{name}: ×{usual:.2f} (runs of a point scatter by"
        f" {100 * statistics.median(found):.2g} %), ×{worst:.2f} between points that scatter most"
    )
