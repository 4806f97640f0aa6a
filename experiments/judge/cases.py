"""The works: what is measured of whom, and the goals.

A goal compares mqkv (the case's `subject`) with another system (or with itself in another case) by
one column: the advantage is how many times better mqkv is, in the column's own sense of better, and
has to reach a factor. A factor below 1 allows to be that much worse.
"""

from dataclasses import dataclass, field

from judge.systems import ECHOES

LOWER_IS_BETTER = (
    "mean_us p50_us p90_us p99_us p999_us max_us fill_s clean_start_s crash_start_s stop_s"
    " memory_bytes_per_key idle_cpu_us_per_s server_cpu_us_per_op client_cpu_us_per_op"
).split()

SERVERS = ("mqkv", "redis", "memcached")
ECHO = "echo-shared"  # with replies as mqkv has them by default
THREADS = (1, 5, 50)
SHARES = (20, 40, 60, 80)  # per cent of what a system reaches, offered to it
RATES = (1_000, 5_000, 10_000, 20_000, 50_000, 100_000)  # operations per second, offered to all


@dataclass(frozen=True)
class Goal:
    column: str
    against: str  # a system, or "CASE" of mqkv itself written as "mqkv:CASE"
    factor: float
    name: str = ""  # of what it is compared with; "": the system's


@dataclass(frozen=True)
class Limit:
    """Not a comparison: the column of mqkv must stay below."""

    column: str
    most: float


@dataclass(frozen=True)
class Echo:
    """How the raw echo is to be like mqkv under the same load."""

    value_bytes: int = 64
    message_bytes: int = 256  # at the most
    groups: int = 0  # of threads that share messages; 0: they do not
    lanes: int = 1  # of ten clients each: an idle lane costs whoever polls it


@dataclass(frozen=True)
class Case:
    name: str
    title: str
    kind: str  # which module measures it
    section: str  # of the tables
    systems: tuple
    column: str  # the figure of the tables
    goals: tuple = ()
    load: str = ""  # options of the load program
    environment: str = ""  # cases of one environment share servers and keys
    echo: Echo = Echo()
    subject: str = "mqkv"  # the system that the goals are about
    paired: bool = False  # compared round by round, not median by median
    options: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Environment:
    """Servers that stay up, filled, while a group of load cases is measured."""

    sync: str
    value_bytes: int
    keys: int
    options: str = ""  # of serverk


ENVIRONMENTS = {
    "small": Environment("none", 64, 1_000_000),
    "redis-clients": Environment("none", 64, 100_000),
    "interval": Environment("interval", 64, 1_000_000),
    "always": Environment("always", 64, 1_000_000),
    "always-1": Environment("always", 64, 1_000_000, "-d 1"),
    "4k": Environment("none", 4096, 16384),  # 64 MiB of values, as of the larger ones
    "64k": Environment("none", 65536, 1024),
    "1m": Environment("none", 1 << 20, 64),
}

COMBINE_ABOVE = 8  # threads of a process: then mqkv's library has them share messages ...
COMBINE_GROUPS = 3  # ... in so many groups
LARGEST_MESSAGE = 8192

FACTORS = {1: 10, 5: 3, 50: 3}
BATCH_FACTORS = {1: 5, 5: 5, 50: 2.5}
CEILING = Goal("ops_per_s", ECHO, 0.85)


def all_cases():
    return [
        *_single_cases(),
        *_batch_cases(),
        *_value_cases(),
        *_durable_cases(),
        *_busy_cases(),
        *_offered_cases(),
        *_rate_cases(),
        *_direct_cases(),
        *_idle_cases(),
        *_population_cases(),
        *_engine_cases(),
        *_transfer_cases(),
        *_range_cases(),
        *_stall_cases(),
        *_redis_client_cases(),
        *_python_cases(),
    ]


def _echo(threads, processes, message_bytes=256):
    """As mqkv's library has it: a session a thread, or groups of threads that share one."""
    if processes == 1 and threads > COMBINE_ABOVE:
        return Echo(message_bytes=LARGEST_MESSAGE, groups=COMBINE_GROUPS)
    return Echo(message_bytes=message_bytes, lanes=-(-threads // 10))


def _clients(threads, processes=1):
    if processes > 1:
        return f"{processes} processes"
    return f"{threads} client{'' if threads == 1 else 's'}"


def _single_cases():
    mixes = (("get", "GET", "get=1"), ("mix", "GET and PUT, half each", "get=50,put=50"))
    for name, title, mix in mixes:
        for threads, processes in ((1, 1), (5, 1), (50, 1), (50, 50)):
            factor = 1.5 if processes > 1 else FACTORS[threads]
            goals = [Goal("ops_per_s", peer, factor) for peer in ("redis", "memcached")]
            if threads == 1:
                goals += [Goal("p99_us", peer, 1) for peer in ("redis", "memcached")]
            yield Case(
                f"{name}-{threads}{'p' if processes > 1 else ''}",
                f"{title}, {_clients(threads, processes)}",
                "loads",
                "One operation at a time",
                (*SERVERS, *ECHOES),
                "ops_per_s",
                (*goals, CEILING),
                f"-n {threads} --processes {processes} --mix {mix}",
                "small",
                echo=_echo(threads, processes),
            )


def _batch_cases():
    for threads in THREADS:
        yield Case(
            f"batch16-{threads}",
            f"16 GET and PUT per message, {_clients(threads)}",
            "loads",
            "Batches of 16",
            (*SERVERS, *ECHOES),
            "ops_per_s",
            (Goal("ops_per_s", "redis", BATCH_FACTORS[threads]), CEILING),
            f"-n {threads} --batch 16 --mix get=50,put=50",
            "small",
            echo=_echo(threads, 1, 2560),
        )


def _value_cases():
    for environment, title in (("4k", "4 KiB"), ("64k", "64 KiB"), ("1m", "1 MiB")):
        for threads in (1, 5):
            # Up to 4 KiB values are in the messages, larger ones in shared memory.
            value_bytes = ENVIRONMENTS[environment].value_bytes
            message_bytes = LARGEST_MESSAGE if environment == "4k" else 256
            several = threads > 1 and environment == "1m"
            of_memcached = (Goal("megabytes_per_s", "memcached", 1),) if several else ()
            yield Case(
                f"value-{environment}-{threads}",
                f"values of {title}, GET and PUT, {_clients(threads)}",
                "loads",
                "Large values",
                (*SERVERS, *ECHOES),
                "megabytes_per_s",
                (Goal("megabytes_per_s", "redis", 3), *of_memcached, CEILING),
                f"-n {threads} --mix get=50,put=50",
                environment,
                echo=Echo(value_bytes, message_bytes),
            )


def _durable_cases():
    for environment, files in (("always", ""), ("always-1", ", one data file")):
        yield Case(
            environment.replace("always", "always-50"),
            f"PUT, each on disk before the answer, 50 clients{files}",
            "loads",
            "Durable writes",
            ("mqkv", "redis"),
            "ops_per_s",
            (Goal("ops_per_s", "redis", 2),),
            "-n 50 --mix put=1",
            environment,
        )
    yield Case(
        "interval-50",
        "PUT, on disk within a second, 50 clients",
        "loads",
        "Durable writes",
        ("mqkv", "redis"),
        "ops_per_s",
        (),
        "-n 50 --mix put=1",
        "interval",
    )
    yield Case(
        "engine-put-sync-50",
        "engine alone: PUT, each on disk, 50 threads",
        "engines",
        "Durable writes",
        ("mqkv", "lmdb", "rocksdb", "leveldb"),
        "ops_per_s",
        options={"threads": 50, "sync": True, "keys": 10_000},
    )


def _busy_cases():
    works = (
        ("get-1", "GET, 1 client", 1, 1, "get=1", 3),
        ("get-5", "GET, 5 clients", 5, 1, "get=1", 3),
        ("get-50", "GET, 50 clients", 50, 1, "get=1", None),
        ("get-50p", "GET, 50 processes", 50, 50, "get=1", None),
        ("mix-1", "GET and PUT, half each, 1 client", 1, 1, "get=50,put=50", None),
        ("mix-5", "GET and PUT, half each, 5 clients", 5, 1, "get=50,put=50", None),
    )
    for name, title, threads, processes, mix, factor in works:
        goals = [Goal("ops_per_s", peer, factor) for peer in ("redis", "memcached") if factor]
        yield Case(
            f"busy-{name}",
            title,
            "busy",
            "A busy machine",
            (*SERVERS, *ECHOES),
            "ops_per_s",
            tuple(goals),
            f"-n {threads} --processes {processes} --mix {mix}",
            "small",
            echo=_echo(threads, processes),
            paired=True,
        )


def _offered_cases():
    """A run of a work gives all of its lines."""
    for threads in THREADS:
        work = {
            "kind": "offered",
            "section": "Offered load",
            "systems": SERVERS,
            "load": f"-n {threads} --mix get=50,put=50",
            "environment": "small",
        }
        name = f"offered-{threads}"
        yield Case(
            f"{name}@reached",
            f"{_clients(threads)}, closed loop: operations/s",
            column="ops_per_s",
            **work,
        )
        for share in SHARES:
            for column, told in (("p99_us", "p99"), ("p999_us", "p99.9")):
                yield Case(
                    f"{name}@{share}",
                    f"{_clients(threads)}, {share} % of that: {told}, µs",
                    column=column,
                    goals=(Goal(column, "redis", 1),),
                    **work,
                )


def _rate_cases():
    """A run of a work gives all of its lines."""
    columns = (
        ("p50_us", "p50, µs", ()),
        ("p99_us", "p99, µs", (Goal("p99_us", "redis", 1), Goal("p99_us", "memcached", 1))),
        ("p999_us", "p99.9, µs", (Goal("p999_us", "redis", 1 / 1.5),)),
        ("server_cpu_us_per_op", "CPU of the server, µs per operation", ()),
        ("client_cpu_us_per_op", "CPU of the clients, µs per operation", ()),
    )
    for kind, section in (("rates", "Load"), ("rates-busy", "Load on a busy machine")):
        for threads in THREADS:
            for rate in RATES:
                for column, told, goals in columns:
                    yield Case(
                        f"{kind}-{threads}@{rate}",
                        f"{_clients(threads)}, {rate:,}/s: {told}",
                        kind,
                        section,
                        SERVERS,
                        column,
                        goals,
                        f"-n {threads} --mix get=50,put=50",
                        "small",
                    )


def _direct_cases():
    """Reads without the daemon, and what they are measured by: LMDB, which another process wrote;
    the queues; a copy of the same bytes."""
    peers = ("mqkv", "mqkv-queue", "lmdb", "redis")
    rate = "ops_per_s"
    alone = "mqkv:direct-get-1"
    works = (
        (
            "get-1",
            "GET, 1 client",
            "-n 1",
            peers,
            (
                Goal(rate, "lmdb", 2),
                Goal(rate, "mqkv-queue", 10),
                Goal(rate, "redis", 100),
                Limit("server_cpu_us_per_op", 0.01),
            ),
        ),
        ("get-2", "GET, 2 threads", "-n 2", peers, (Goal(rate, alone, 1.8, "one thread"),)),
        (
            "get-2p",
            "GET, 2 processes",
            "-n 2 --processes 2",
            peers,
            (Goal(rate, alone, 1.8, "one process"),),
        ),
        ("get-50p", "GET, 50 processes", "-n 50 --processes 50", peers, ()),
        (
            "batch16-1",
            "16 GET per call, 1 client",
            "-n 1 --batch 16",
            peers,
            (Goal(rate, alone, 1.5, "single GETs"),),
        ),
        (
            "writer-1",
            "GET, 1 client, while another one overwrites",
            "-n 1",
            ("mqkv", "mqkv-queue", "lmdb"),
            (Goal(rate, alone, 0.7, "same alone"),),
        ),
    )
    for name, title, load, systems, goals in works:
        yield Case(
            f"direct-{name}",
            title,
            "direct",
            "Reads without the daemon",
            systems,
            rate,
            goals,
            f"{load} --mix get=1",
            "small",
            options={"writer": name.startswith("writer")},
        )
    for environment, title in (("64k", "64 KiB"), ("1m", "1 MiB")):
        yield Case(
            f"direct-{environment}-1",
            f"GET of {title}, 1 client",
            "direct",
            "Large reads without the daemon",
            ("mqkv", "mqkv-queue", "lmdb", "copy"),
            "megabytes_per_s",
            (Goal("megabytes_per_s", "copy", 0.8),),
            "-n 1 --mix get=1",
            environment,
        )


def _idle_cases():
    yield Case(
        "idle",
        "CPU with idle clients connected, µs per second",
        "idle",
        "At rest",
        SERVERS,
        "idle_cpu_us_per_s",
        (Limit("idle_cpu_us_per_s", 500),),
        options={"clients": 50, "seconds": 3},
    )


POPULATION_COLUMNS = (
    ("memory_bytes_per_key", "memory beyond the page cache, bytes per key"),
    ("fill_s", "filling with batches, s"),
    ("clean_start_s", "clean restart to the first answer, s"),
    ("crash_start_s", "restart after kill -9 to the first answer, s"),
)


def _population_cases():
    """One run gives all columns; each is a line of the table."""
    goals = {
        "memory_bytes_per_key": (Goal("memory_bytes_per_key", "redis", 4),),
        "fill_s": (Goal("fill_s", "redis", 3),),
        "clean_start_s": (Goal("clean_start_s", "redis", 10),),
        "crash_start_s": (Goal("crash_start_s", "redis", 1), Limit("crash_start_s", 0.1)),
    }
    for column, title in POPULATION_COLUMNS:
        systems = ["mqkv", "redis", "redis-aof", "memcached"]
        if column.endswith("start_s"):
            systems.remove("memcached")
        if column == "clean_start_s":
            systems.remove("redis-aof")
        yield Case(
            "population",
            title,
            "population",
            "Many keys",
            tuple(systems),
            column,
            goals[column],
            options={"keys": 10_000_000},
        )


def _engine_cases():
    for threads in (1, 2):
        for phase in ("put", "get"):
            yield Case(
                f"engine-{phase}-{threads}",
                f"engine alone: random {phase.upper()}, {threads} thread{'s' * (threads > 1)}",
                "engines",
                "Engines in process",
                ("mqkv", "lmdb", "rocksdb", "leveldb"),
                "ops_per_s",
                tuple(Goal("ops_per_s", peer, 2) for peer in ("lmdb", "rocksdb", "leveldb")),
                options={"threads": threads, "sync": False, "keys": 5_000_000},
            )


def _transfer_cases():
    rate = "ops_per_s"
    own = ("mqkv", "mqkv-handles", "mqkv-loop")
    fleeting = (*own, "redis-watch", "redis-script", "sqlite-normal", "lmdb-nosync")
    durable = (*own, "sqlite-full", "lmdb-sync")
    goals = {
        ("none", 1): (Goal(rate, "redis-watch", 8), Goal(rate, "redis-script", 4)),
        ("none", 50): (Goal(rate, "redis-script", 3),),
        ("always", 50): tuple(Goal(rate, peer, 2) for peer in ("sqlite-full", "lmdb-sync")),
    }
    works = (("none", "", "", fleeting), ("always", "-always", ", each on disk", durable))
    for sync, name, title, systems in works:
        for threads in THREADS:
            yield Case(
                f"transfer{name}-{threads}",
                f"transfers between 1,000 accounts{title}, {_clients(threads)}",
                "transfers",
                "Transactions",
                systems,
                rate,
                goals.get((sync, threads), ()),
                options={"threads": threads, "sync": sync},
            )


def _range_cases():
    rate = "ops_per_s"
    for threads in (1, 5):
        yield Case(
            f"ycsb-e-{threads}",
            f"YCSB E: ranges of 1 to 100 entries of 1,000 bytes, 5 % new keys, {_clients(threads)}",
            "ranges",
            "Ranges",
            ("mqkv", "mqkv-queue", "redis", "lmdb", "leveldb", "rocksdb"),
            rate,
            (
                Goal(rate, "lmdb", 0.8),
                *(Goal(rate, peer, 2) for peer in ("redis", "leveldb", "rocksdb")),
            ),
            options={"threads": threads, "keys": 200_000},
        )


def _python_cases():
    """One line of a program in Python: a cache in a directory beside diskcache and others."""
    all_systems = ("mqkv", "diskcache", "redis-py", "lmdb-nosync")
    works = (
        ("get", "get", all_systems, ("diskcache", 5)),
        ("set", "set", all_systems, ("diskcache", 5)),
        ("memoize", "a memoized call", ("mqkv", "diskcache"), ("diskcache", 5)),
        ("bulk", "50,000 puts together", all_systems, ("lmdb-nosync", 1)),
    )
    for work, title, systems, (peer, factor) in works:
        yield Case(
            f"python-{work}",
            f"Python: {title}",
            "python",
            "Python",
            systems,
            "ops_per_s",
            (Goal("ops_per_s", peer, factor),),
            options={"work": work},
        )


REDIS_CLIENT_FACTORS = ((1, 1, 1), (50, 1, 1.2), (50, 16, 1.5))  # clients, pipeline, factor


def _redis_client_cases():
    """Clients of Redis, unchanged: hiredis, and Redis' own benchmark, on kresp and on Redis."""
    for name, title, mix in (("get", "GET", "get=1"), ("set", "SET", "put=1")):
        for threads, batch, factor in REDIS_CLIENT_FACTORS:
            yield Case(
                f"hiredis-{name}-{threads}x{batch}",
                f"hiredis: {title}, {_clients(threads)}{_pipelined(batch)}",
                "loads",
                "Clients of Redis",
                ("kresp", "redis"),
                "ops_per_s",
                _redis_client_goals(factor),
                f"-n {threads} --batch {batch} --mix {mix}",
                "redis-clients",
                subject="kresp",
            )
    for test in ("set", "get", "incr"):
        for clients, pipeline, factor in REDIS_CLIENT_FACTORS:
            yield Case(
                f"redis-benchmark-{test}-{clients}x{pipeline}",
                f"redis-benchmark: {test.upper()}, {_clients(clients)}{_pipelined(pipeline)}",
                "redis_benchmark",
                "Clients of Redis",
                ("kresp", "redis"),
                "ops_per_s",
                _redis_client_goals(factor),
                subject="kresp",
                options={"test": test, "clients": clients, "pipeline": pipeline},
            )


def _redis_client_goals(factor):
    """CPU time is judged too: the load program itself is the limit of a short pipeline."""
    return (
        Goal("ops_per_s", "redis", factor),
        Goal("p99_us", "redis", 1),
        Goal("server_cpu_us_per_op", "redis", 1),
    )


def _pipelined(batch):
    return f", {batch} pipelined" if batch > 1 else ""


def _stall_cases():
    works = (
        ("rest", "PUT at rest: p99.9, µs", ()),
        (
            "growth",
            "PUT while the index grows: p99.9, µs",
            (Goal("p999_us", "mqkv:rest", 0.2, "itself at rest"),),
        ),
        (
            "compaction",
            "PUT while compaction runs: p99.9, µs",
            (Goal("p999_us", "mqkv:rest", 0.2, "itself at rest"),),
        ),
        (
            "large",
            "PUT beside one of 64 MiB to the same data file: p99.9, µs",
            (Limit("p999_us", 10_000),),
        ),
    )
    for name, title, goals in works:
        yield Case(
            name,
            title,
            "stalls",
            "No stalls",
            ("mqkv",),
            "p999_us",
            goals,
            options={"keys": 1_000_000},
        )
