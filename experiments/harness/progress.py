"""What a person sees while a study runs: one line, rewritten, on a terminal; plain lines else."""

import shutil
import sys
import time


class Progress:
    def __init__(self, title, runs, afterwards_s=0):
        """afterwards_s: what the studies after this one will take."""
        self.title = title
        self.afterwards_s = afterwards_s
        self.runs = runs
        self.done = 0
        self.started = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def finished(self, text):
        """Says that one more run is done; `text` is its result in a few words."""
        self.done += 1
        self._show(f"{self.title} {self.done:3d}/{self.runs}  {text}  {self._time_left()}")

    def one_more(self):
        """A run beyond those announced."""
        self.runs += 1

    def end(self):
        if self.terminal:
            sys.stderr.write("\n")

    def _time_left(self):
        per_run_s = (time.monotonic() - self.started) / max(self.done, 1)
        left_s = per_run_s * (self.runs - self.done)
        text = f"{duration(left_s)} left"
        if self.afterwards_s:
            text += f" ({duration(left_s + self.afterwards_s)} with the studies after it)"
        return text

    def _show(self, line):
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r\033[K" + line[:width])
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


def duration(seconds):
    """For people: '45 s', '2 min 5 s', '1 h 10 min'."""
    seconds = max(round(seconds), 0)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
