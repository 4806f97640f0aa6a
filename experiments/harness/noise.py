"""How much a run was disturbed by what else the machine did, and which attempt at a run counts."""

NOISY_PCT = 5.0  # of the machine's CPU stolen or used by others: then a run is called noisy
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


def attempt_of(row):
    return int(row.get("attempt") or 1)


def quietest(raw_rows, *keys):
    """One row for each run: of several attempts the one least disturbed, the earlier if equal."""
    best = {}
    for row in raw_rows:
        run = tuple(row[key] for key in ("series", *keys, "repeat"))
        if run not in best or (disturbance_pct(row) or 0) < (disturbance_pct(best[run]) or 0):
            best[run] = row
    return list(best.values())


class Again:
    """Decides which runs are repeated, so that it ends on any machine: a run has ATTEMPTS_MAX
    attempts, all repetitions together AGAIN_SHARE of the runs, and after GIVE_UP noisy ones in a row
    there are no more. The rows on disk are all that it knows, so an interrupted study goes on."""

    def __init__(self, raw_rows, runs, limit_pct):
        self.limit_pct = limit_pct
        self.rows = list(raw_rows)
        self.most = int(runs * AGAIN_SHARE)

    def add(self, row):
        self.rows.append(row)

    def next(self, key_of):
        """(key, number of the next attempt) of a run to repeat, or None. key_of(row): of its run."""
        repeated = [row for row in self.rows if attempt_of(row) > 1]
        last = repeated[-GIVE_UP:]
        if len(repeated) >= self.most or (
            len(last) == GIVE_UP and all(is_noisy(row, self.limit_pct) for row in last)
        ):
            return None
        attempts = {}
        quiet = set()
        for row in self.rows:
            attempts[key_of(row)] = max(attempts.get(key_of(row), 0), attempt_of(row))
            if not is_noisy(row, self.limit_pct):
                quiet.add(key_of(row))
        open_runs = [
            (count, key)
            for key, count in attempts.items()
            if key not in quiet and count < ATTEMPTS_MAX
        ]
        if not open_runs:
            return None
        count, key = min(open_runs, key=lambda run: run[0])  # the fewest attempts, the earliest run
        return key, count + 1
