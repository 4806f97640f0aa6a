"""tests/hostile/long: hostile input at scale, for as long as one likes; `make hostile`.

Mutated messages at live daemons, damaged stores, and the long forms of tests/hostile/*.sh, in turn,
in programs built with the address and undefined-behaviour sanitizers. A finding is printed with
what is needed to repeat it, and kept; the exit status is then 1.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from messages import Messages  # noqa: E402
from process import as_user  # noqa: E402
from stores import Stores  # noqa: E402

MOST_FINDINGS = 5
SCRIPTS = (
    "limits.sh",
    "file_kinds.sh",
    "segments.sh",
    "flood.sh",
)  # of tests/hostile/; LIMITS_LONG=1: the long form


class Place:
    """Where all happens: build, scratch directory, queue, users, and what is kept of findings."""

    def __init__(self, build, scratch, found):
        self.build = build
        self.scratch = scratch
        self.found = found
        self.queue = os.environ.get("MQKV_TEST_QUEUE", f"/hostile{os.getpid()}")
        base = int(os.environ.get("MQKV_TEST_UIDS", "40000"))
        self.uids = (base + 1, base + 2, base + 3)
        if os.getuid() != 0 or not self._reachable():
            self.uids = ()
            print(
                "users of their own need root, and a build that others can reach: all is one user's"
            )

    def _reachable(self):
        argv = as_user(self.uids[2], ["test", "-x", self.build / "serverk"])
        return subprocess.run(argv, check=False, capture_output=True).returncode == 0

    def fresh_dir(self, name, uid=None):
        directory = self.scratch / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        if uid is not None:
            os.chown(directory, uid, uid)
        return directory

    def leftovers(self):
        """Removes the queues and segments of our name; what there was, as text."""
        argv = [str(HERE.parent.parent / "leftovers"), "--remove", self.queue]
        left = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        return ", ".join(left.split("\n")[:-1])

    def keep(self, directory, name):
        kept = self.found / name
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        subprocess.run(["cp", "-r", "--sparse=always", str(directory), str(kept)], check=False)
        return kept


class Progress:
    """On a terminal all the time, in a log once a minute."""

    def __init__(self, start, seconds, count):
        self.start, self.seconds, self.count, self.told = start, seconds, count, start

    def show(self, stage):
        now = time.monotonic()
        spent = now - self.start
        left = (
            spent / stage.done * (self.count - stage.done)
            if self.count and stage.done
            else (self.seconds - spent)
        )
        line = f"{stage.summary()}; {max(0, left):.0f} s left"
        if sys.stderr.isatty():
            print(f"\r{line} ", end="", file=sys.stderr, flush=True)
        elif now - self.told >= 60:
            self.told = now
            print(line, flush=True)


def run_stage(stage, seconds, count, first_seed):
    """Rounds until the time is over, or `count` (of what the stage counts) is reached; the
    findings."""
    findings = []
    start = time.monotonic()
    until, seed = start + seconds, first_seed
    shown = Progress(start, seconds, count)
    while (stage.done < count if count else time.monotonic() < until) and len(
        findings
    ) < MOST_FINDINGS:
        try:
            wrong = stage.round(seed)
        except KeyboardInterrupt:
            print("\ninterrupted", flush=True)
            break
        if wrong:
            findings.append(wrong)
            print(f"\nFINDING {wrong}", flush=True)
        seed += 1
        shown.show(stage)
    print(
        f"{stage.summary()}; {time.monotonic() - start:.0f} s, seeds {first_seed} to {seed - 1}",
        flush=True,
    )
    return findings


def run_script(path, build):
    """A test in its long form; its failed checks are findings. With the build without sanitizers,
    which need more than small limits give."""
    env = os.environ | {
        "LIMITS_LONG": "1",
        "HOSTILE_PAIRS": "5",
        "MQKV_BUILD": str(build),
        "MQKV_TEST_TIMEOUT": "3600",
    }
    done = subprocess.run(
        [str(HERE.parent.parent / "run"), str(path)],
        env=env,
        text=True,
        capture_output=True,
        check=False,
    )
    print(f"{path.name}: {done.stdout.strip().splitlines()[-1]}", flush=True)
    return [done.stdout] if done.returncode != 0 else []


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/asan"))
    parser.add_argument(
        "--plain-build", type=pathlib.Path, help="for scripts; none: they are left out"
    )
    parser.add_argument("--seconds", type=float, default=180, help="for all stages together")
    parser.add_argument("--messages", type=int, default=0, help="so many, instead of a time")
    parser.add_argument("--stores", type=int, default=0, help="so many, instead of a time")
    parser.add_argument("--seed", type=int, default=0, help="of the first round; 0: from the clock")
    parser.add_argument("--round", type=int, default=0, help="which options messages begin with")
    parser.add_argument("--only", choices=("messages", "stores", "scripts"))
    return parser.parse_args()


def interrupted(*_):
    """Ends with all that was started, and with what was found so far."""
    raise KeyboardInterrupt


def main():
    options = parse()
    signal.signal(signal.SIGTERM, interrupted)
    seed = options.seed or int(time.time()) % 1000000 * 1000
    build = options.build.resolve()
    findings = []
    with tempfile.TemporaryDirectory(prefix="mqkv-hostile-") as scratch:
        os.chmod(scratch, 0o711)
        place = Place(build, pathlib.Path(scratch), build / "found")
        messages, stores = Messages(place), Stores(place)
        messages.rounds = options.round
        if options.only in (None, "messages"):
            findings += run_stage(messages, options.seconds * 0.4, options.messages, seed)
        if options.only in (None, "stores"):
            findings += run_stage(stores, options.seconds * 0.6, options.stores, seed)
        if options.only in (None, "scripts") and options.plain_build:
            for name in SCRIPTS:
                findings += run_script(HERE.parent / name, options.plain_build.resolve())
    print(
        f"hostile: {len(findings)} findings"
        + (f"; what is kept: {build}/found" if findings else "")
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
