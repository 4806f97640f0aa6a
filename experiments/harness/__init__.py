"""The experiment harness: reads studies, runs their points, keeps raw rows, analyses, reports.

Standard library only. The modules, from what is read to what is written:
  sections   a definition file, with errors that name section and key
  study      a study's definition (study.conf, published.csv)
  claim      what the source concludes, in a form that can be judged
  machine    facts about this machine and build, and how busy it is
  processes  the daemon and the load program: start, count, end
  awake      keeps the CPUs of a virtual machine awake meanwhile
  point      one run: fresh daemon, warm-up, measurement, one row
  rehearsal  every variant of a study once, for a moment
  results    raw rows and manifest on disk, so that a run can be resumed
  noise      which runs were disturbed, and are repeated
  progress   what a person sees meanwhile
  formula    columns computed from columns
  summary    means, 95 % intervals (Student's t) and ratios from raw rows
  theory     what queueing theory predicts for a point
  crossover  from which value of the knob on a difference holds
  verdict    whether a published claim holds, in words made from the numbers
  comparison the same for one comparison of points
  repetition whether rows measured again say the same
  power      which difference could have been told
  content    all that a report says, as data
  report     REPORT.md
  deck       the pages of a deck of slides
  figure     what the plots need beside the summary
  ending     how the programs end
"""


class HarnessError(Exception):
    """Something the user can act on; its text says what was wrong and what to do."""
