"""How much a run was disturbed by what else the machine did, and which attempt at a run counts."""

NOISY_PCT = 5.0  # of the machine's CPU stolen or used by others: then a run is called noisy
BEARS_ALL_PCT = 100.0  # a limit that no run can pass
ATTEMPTS_MAX = 3  # at one run
AGAIN_SHARE = 0.5  # of a study's runs may be repeated in all
GIVE_UP = 6  # noisy attempts in a row: the machine is not going to be quiet


def disturbance_pct(row):
    """None if the row does not say."""
    cells = row.get("steal_pct"), row.get("foreign_cpu_pct")
    return None if "" in cells or None in cells else sum(map(float, cells))


def is_noisy(row, limit_pct=NOISY_PCT):
    """By a limit; the column `noisy` of a row says it by that of the time of measuring."""
    pct = disturbance_pct(row)
    return pct is not None and pct > limit_pct


def add_option(parser, told=f"{NOISY_PCT:g}", default=NOISY_PCT):
    """told: the default, in words."""
    parser.add_argument(
        "--noise-limit",
        type=float,
        default=default,
        metavar="PCT",
        help="repeat a run, a few times at most, if others used or stole more than so much of the"
        f" machine's CPU (default: {told}; 100: repeat none)",
    )


def attempt_of(row):
    return int(row.get("attempt") or 1)


def quietest(raw_rows, *columns):
    """One row for each run: of several attempts the one least disturbed, the earlier if equal.
    columns: those that, with the repeat, tell one run from another."""
    best = {}
    for row in raw_rows:
        run = tuple(row[column] for column in (*columns, "repeat"))
        if run not in best or (disturbance_pct(row) or 0) < (disturbance_pct(best[run]) or 0):
            best[run] = row
    return list(best.values())


class Again:
    """Decides which runs are repeated, so that it ends on any machine: a run has ATTEMPTS_MAX
    attempts, all repetitions together AGAIN_SHARE of the runs, and after GIVE_UP noisy ones in a
    row there are no more. The rows on disk are all that it knows, so an interrupted study goes on.
    key_of(row): of the row's run; a run may have several rows."""

    def __init__(self, raw_rows, runs, limit_pct, key_of):
        self.limit_pct = limit_pct
        self.key_of = key_of
        self.rows = list(raw_rows)
        self.most = int(runs * AGAIN_SHARE)

    def add(self, row):
        self.rows.append(row)

    def next(self, among=None):
        """(key, number of the next attempt) of a run to repeat, or None. among: the keys of the
        runs that can be repeated now; None: all can."""
        by_attempt = {(self.key_of(row), attempt_of(row)): row for row in self.rows}
        repeated = [row for (_, attempt), row in by_attempt.items() if attempt > 1]
        last = repeated[-GIVE_UP:]
        if len(repeated) >= self.most or (
            len(last) == GIVE_UP and all(is_noisy(row, self.limit_pct) for row in last)
        ):
            return None
        attempts = {}
        quiet = set()
        for (key, attempt), row in by_attempt.items():
            attempts[key] = max(attempts.get(key, 0), attempt)
            if not is_noisy(row, self.limit_pct):
                quiet.add(key)
        open_runs = [
            (count, key)
            for key, count in attempts.items()
            if key not in quiet and count < ATTEMPTS_MAX and (among is None or key in among)
        ]
        if not open_runs:
            return None
        count, key = min(open_runs, key=lambda run: run[0])  # the fewest attempts, the earliest run
        return key, count + 1
