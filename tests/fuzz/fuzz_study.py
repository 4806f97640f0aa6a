#!/usr/bin/env python3
"""Study files under mutation: study.conf with published.csv, and formulas of [compute].

Whatever stands in a study's folder, the harness reads it or says what is wrong (HarnessError),
within a second or so; what was read can be asked for its profiles, labels and formulas. Inputs that
reach lines of experiments/harness/ that none before them did are kept and mutated further.

    fuzz_study.py [--seconds N] [--seed N] [--keep] [--corpus DIR] [--found DIR] [FILE...]

With files: runs those inputs only. An input is the study.conf and, behind a line with "%%", the
published.csv. The seed (0: another each time) repeats the mutations, not how far they come.
"""

import argparse
import hashlib
import pathlib
import random
import signal
import sys
import tempfile
import time
import warnings

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
EXPERIMENTS = HERE.parent.parent / "experiments"
sys.path.insert(0, str(EXPERIMENTS))

from harness import HarnessError, claim, formula, sections, study  # noqa: E402

MODULES = (claim, formula, sections, study)
SPLIT = "\n%%\n"
LONGEST_S = 5  # a study is read in milliseconds
LONGEST_BYTES = 20000
WORDS = (
    "= # ; [ ] [study] [knob] [series x] [profile quick] [claim] [compute] [published] [plot] "
    "values "
    "base base_series claim compare shapes peak rising by within at % ~ < > / 1e999 nan inf -1 0 "
    "9**9**9 2**-1 (-1)**0.5 min() max(1) abs(a,b) {build} {seconds} {} {x.y} \x00 \ufeff é \\ ' "
    "\" , "
    "repeats measure_s warmup_s 1_000 0x10 True ops_per_s log_y metrics name label only_if group"
).split(" ")
FORMULA = (
    "ops_per_s p50_us threads nowhere 0 1 2 9 99999 1e308 0.5 1j 'a' None + - * / ** // % ( ) , "
    "min( "
    'max( abs( round( lambda: x[0] x.y if else for . not ~ ** ** 9**9**9 -1 {} [] "" # = :='
).split(" ")


class TooLong(Exception):
    """An input took longer than LONGEST_S."""


def seeds(corpus):
    for path in sorted(EXPERIMENTS.glob("**/study.conf")):
        published = path.with_name("published.csv")
        rows = published.read_text(encoding="utf-8") if published.exists() else ""
        yield path.read_text(encoding="utf-8") + SPLIT + rows
    for path in sorted(corpus.glob("*")) if corpus else ():
        yield path.read_text(encoding="utf-8", errors="surrogateescape")


def mutate(text, others, rng):
    for _ in range(rng.choice((1, 1, 2, 4, 8))):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        kind = rng.randrange(9)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif kind == 2:
            lines.insert(at, rng.choice(rng.choice(others).split("\n")))
        elif kind == 3:
            lines[at] = lines[at][: rng.randrange(len(lines[at]) + 1)]
        elif kind == 4:
            words = lines[at].split(" ")
            words[rng.randrange(len(words))] = rng.choice(WORDS)
            lines[at] = " ".join(words)
        elif kind == 5:
            place = rng.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:place] + rng.choice(WORDS) + lines[at][place:]
        elif kind == 6:
            place = rng.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:place] + chr(rng.randrange(256)) + lines[at][place + 1 :]
        elif kind == 7:
            lines[at] = lines[at] * rng.choice((2, 3, 50))
        else:
            name, end = f"f{rng.randrange(1000)}", lines.index("%%") if "%%" in lines else len(
                lines
            )
            if "[compute]" not in lines:
                lines.insert(end, "[compute]")
            lines.insert(lines.index("[compute]") + 1, f"{name} = {expression(rng)}")
        text = "\n".join(lines) or "\n"
    return text[:LONGEST_BYTES]


def expression(rng):
    """A formula of [compute], or nearly one."""
    words = [rng.choice(FORMULA) for _ in range(rng.choice((1, 3, 5, 9, 15)))]
    if rng.random() < 0.1:
        words = ["(" * rng.choice((1, 50, 300))] + words
    return rng.choice(("", " ")).join(words)


class Reached:
    """The lines of the modules that inputs have reached."""

    def __init__(self):
        self.files = {module.__file__ for module in MODULES}
        self.lines = set()
        self.all_lines = {
            (module.__file__, line)
            for module in MODULES
            for line in _lines_of(compile(_text(module.__file__), module.__file__, "exec"))
        }

    def run(self, call):
        """Calls it; True if it reached a line that none did before."""
        before = len(self.lines)
        sys.settrace(self._trace)
        try:
            call()
        finally:
            sys.settrace(None)
        return len(self.lines) > before

    def _trace(self, frame, event, _):
        if frame.f_code.co_filename not in self.files:
            return None
        if event == "line":
            self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace


def _text(path):
    return pathlib.Path(path).read_text(encoding="utf-8")


def _lines_of(code):
    """The lines of functions: those of the module itself ran when it was imported."""
    for constant in code.co_consts:
        if hasattr(constant, "co_lines"):
            if constant.co_flags & 2:  # CO_NEWLOCALS and a function, not a class
                yield from (line for _, _, line in constant.co_lines() if line)
            yield from _lines_of(constant)


def use(folder):
    """What the harness does with a study before it starts anything."""
    found = study.read(folder)
    found.definition_hash()
    found.programs()
    found.base_text()
    for value in found.values:
        found.label_of(value)
    for metric in found.metrics:
        found.name_of(metric)
    for name in found.profiles:
        found.profile(name)
    row = {"ops_per_s": "100", "p50_us": "2", "threads": "4", "ops": "0"}
    for text in found.computed.values():
        try:
            value = formula.evaluate(text, row)
        except HarnessError:
            continue
        if not isinstance(value, (int, float)):
            raise TypeError(f"[compute] {text[:80]}: {type(value).__name__} is no number of a row")


def try_input(text, folder):
    """Raises what is no HarnessError."""
    conf, _, published = text.partition(SPLIT)
    (folder / "study.conf").write_bytes(conf.encode("utf-8", "surrogateescape"))
    (folder / "published.csv").write_bytes(published.encode("utf-8", "surrogateescape"))
    signal.alarm(LONGEST_S)
    try:
        use(folder)
    except HarnessError as error:
        if not str(error).strip():
            raise TypeError("a HarnessError that says nothing") from error
    finally:
        signal.alarm(0)


def too_long(*_):
    raise TooLong(f"longer than {LONGEST_S} s")


def finding(text, error, folder):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ("fuzz_study-" + hashlib.sha1(text.encode("utf-8", "replace")).hexdigest()[:16])
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    print(
        f"FAIL fuzz_study: {type(error).__name__}: {str(error)[:200]}; again with: {__file__} "
        f"{path}"
    )
    return 1


def fuzz(options, folder):
    rng = random.Random(options.seed or time.time_ns())
    reached = Reached()
    corpus = list(seeds(options.corpus))
    start, inputs, kept = time.monotonic(), 0, 0
    pending = list(corpus)
    while pending or time.monotonic() < start + options.seconds:
        fresh = bool(pending)
        text = pending.pop() if fresh else mutate(rng.choice(corpus), corpus, rng)
        inputs += 1
        try:
            new = reached.run(lambda text=text: try_input(text, folder))
        except Exception as error:  # pylint: disable=broad-except
            return finding(text, error, options.found)
        if new and not fresh:
            corpus.append(text)
            kept += 1
            if options.keep and options.corpus:
                name = hashlib.sha1(text.encode("utf-8", "replace")).hexdigest()[:16]
                (options.corpus / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    lines = len(reached.lines & reached.all_lines)
    print(
        f"pass fuzz_study: {inputs} inputs in {options.seconds} s, {kept} kept; "
        f"{lines} of {len(reached.all_lines)} lines of functions in "
        + " ".join(sorted(pathlib.Path(module.__file__).name for module in MODULES))
    )
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=pathlib.Path)
    parser.add_argument("--found", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    warnings.simplefilter("ignore")  # Python's own, of formulas
    with tempfile.TemporaryDirectory(prefix="mqkv-fuzz-study-") as folder:
        if not options.files:
            return fuzz(options, pathlib.Path(folder))
        for path in options.files:
            try_input(
                path.read_text(encoding="utf-8", errors="surrogateescape"), pathlib.Path(folder)
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
