"""Mutated messages at a live daemon: rounds with different options and users
(message_mutations.c)."""

import csv
import re
import subprocess

from process import Daemon, as_user, run

ROUND_MESSAGES = 50000
MOST_KIB = 1 << 20
OPTIONS = (
    "--lanes auto",
    "--lanes shared -w 4",
    "--lanes worker -w 4",
    "--sync always",
    "--dispatch event",
    "--dispatch thread",
    "--dispatch process",
    "--sched cost -w 4",
    "--sched priority -w 2",
    "--io pread --cache 1M",
    "--locking optimistic -w 4",
)
SUMMARY = re.compile(r"(\d+) polite answers, daemon at most (\d+) KiB, ([+-]\d+) descriptors")


class Messages:
    """One round at a time; a finding is a text."""

    name = "messages"

    def __init__(self, place):
        self.place = place
        self.done = self.rounds = self.polite = self.peak_kib = 0

    def round(self, seed):
        """Sends ROUND_MESSAGES; returns what is wrong, or ""."""
        options = OPTIONS[self.rounds % len(OPTIONS)].split()
        strangers = self.place.uids and self.rounds % 2
        self.rounds += 1
        uid = self.place.uids[0] if self.place.uids else None
        directory = self.place.fresh_dir("messages", uid)
        log = self.place.scratch / "messages.log"
        log.write_bytes(b"")
        mode = ["--mode", "0622"] if strangers else []
        with Daemon(
            self.place.build, self.place.queue, directory, log, options + mode, uid
        ) as daemon:
            if not daemon.ready():
                return self._told("the daemon does not start", options, seed, log)
            wrong = self._attack(daemon, seed, self.place.uids[2] if strangers else uid)
            status = daemon.stop()
        if not wrong and status != 0:
            wrong = f"the daemon ends with status {status}"
        left = self.place.leftovers()
        if left and not wrong:
            wrong = f"left behind: {left}"
        wrong = daemon.reports() or wrong
        return self._told(wrong, options, seed, log) if wrong else ""

    def _attack(self, daemon, seed, hostile_uid):
        program = self.place.build / "tests/message_mutations"
        argv = [program, self.place.queue, daemon.pid, seed, ROUND_MESSAGES]
        good = self._good_client()
        try:
            outcome = run(argv, self.place.scratch / "mutations.log", 3600, hostile_uid)
            wrong = self._judge_good(good)
        finally:
            good.kill()
            good.wait()
        found = SUMMARY.search(outcome.output)
        if outcome.status != 0 or not found:
            return f"message_mutations ends with {outcome.status}: {outcome.errors[-2000:]}"
        self.done += ROUND_MESSAGES
        self.polite += int(found[1])
        self.peak_kib = max(self.peak_kib, int(found[2]))
        if int(found[2]) > MOST_KIB:
            return f"the daemon took {int(found[2]) // 1024} MiB"
        if int(found[3]) > 0:
            return f"{found[3]} descriptors more than before"
        return wrong

    def _good_client(self):
        """A client beside, of another user where the daemon lets them in, that checks what it
        reads."""
        uid = self.place.uids[0] if self.place.uids else None
        argv = [
            self.place.build / "clientk",
            "-m",
            self.place.queue,
            "--timeout",
            "20000",
            "--format",
            "csv",
            "bench",
            "-c",
            "3000",
            "--keys",
            "500",
            "--mix",
            "get=60,put=40",
            "--preload",
            "--verify",
        ]
        return subprocess.Popen(
            as_user(uid, argv), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @staticmethod
    def _judge_good(good):
        """Waits for it, and looks at the row that it prints."""
        try:
            output, _ = good.communicate(timeout=600)
        except subprocess.TimeoutExpired:
            good.kill()
            good.communicate()
            return "the good client came to no end"
        row = next(csv.DictReader(output.splitlines()), {})
        if good.returncode != 0 or row.get("errors") != "0" or row.get("wrong_values") != "0":
            return f"the good client (exit status {good.returncode}): {output[-500:]}"
        return ""

    def _told(self, wrong, options, seed, log):
        end = log.read_text(encoding="utf-8", errors="replace")[-1500:]
        return (
            f"messages, serverk {' '.join(options)}, seed {seed}: {wrong}\n"
            f"  again with: --only messages --seed {seed} --round {self.rounds - 1}\n  log: {end}"
        )

    def summary(self):
        return (
            f"{self.done} mutated messages in {self.rounds} rounds, {self.polite} right answers "
            f"beside "
            f"them, daemon at most {self.peak_kib // 1024} MiB"
        )
