"""The experiment harness: reads studies, runs their points, keeps raw rows, analyses, reports.

Standard library only. The modules, from what is read to what is written:
  study      a study's definition file (study.conf, published.csv)
  machine    facts about this machine and build, and how busy it is
  processes  the daemon and the load program: start, count, end
  point      one run: fresh daemon, warm-up, measurement, one row
  results    raw rows and manifest on disk, so that a run can be resumed
  progress   what a person sees meanwhile
  summary    means, bootstrap intervals and ratios from raw rows
  verdict    whether a published claim holds, in words made from the numbers
  report     REPORT.md
"""


class HarnessError(Exception):
    """Something the user can act on; its text says what was wrong and what to do."""
