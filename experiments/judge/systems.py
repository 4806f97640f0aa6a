"""The servers that are compared: how each is started, filled, asked, stopped and crashed.

Persistence is matched: `sync` is none, interval or always for all, where a system has it. Sockets,
queues and stores are temporary and named after the run.
"""

import functools
import os
import pathlib
import socket
import subprocess
import time
from dataclasses import dataclass

from harness import HarnessError, processes

START_TIMEOUT_S = 600  # a start that reads many keys
FILL_TIMEOUT_S = 3600
POLL_S = 0.001
SERVER_THREADS = 2  # of memcached: as many as mqkv has workers by default on two CPUs
MEMCACHED_MIB = 16384  # a limit, not a reservation: nothing may be evicted
KEY_BYTES = 16
QUEUES_ONLY = "--direct off"  # how mqkv's messages are judged: each GET is one
DIRECT = "--direct map"
ECHOES = ("echo", "echo-shared")  # replies through a queue, and through shared memory


@dataclass(frozen=True)
class System:
    name: str
    label: str
    program: str  # the load program, under the folder of the build
    address: str  # of the server; {queue} and {folder} are filled in
    server: str  # the command; also {build}, {sync}, and {threads}; "": there is none
    front: str = ""  # the command of a second process, which the clients talk to


_REDIS = (
    'redis-server --port 0 --unixsocket {folder}/redis.sock --dir {data} --save ""'
    " --daemonize no --appendonly {append_only} --appendfsync {append_sync}"
)

_ECHO = "{build}/peers/echo_server {queue}e {echo.lanes} {echo.message_bytes}"

SYSTEMS = {
    system.name: system
    for system in (
        System(
            "mqkv",
            "mqkv",
            "clientk",
            "{queue}",
            "{build}/serverk -m {queue} -f {data} --sync {sync} {options}",
        ),
        System(
            "kresp",
            "kresp",
            "peers/peer_redis",
            "{folder}/kresp.sock",
            "{build}/serverk -m {queue} -f {data} --sync {sync} {options}",
            "{build}/kresp -m {queue} -s {folder}/kresp.sock",
        ),
        System("redis", "Redis", "peers/peer_redis", "{folder}/redis.sock", _REDIS),
        System("redis-aof", "Redis, AOF", "peers/peer_redis", "{folder}/redis.sock", _REDIS),
        System(
            "memcached",
            "memcached",
            "peers/peer_memcached",
            "{folder}/memcached.sock",
            "memcached -s {folder}/memcached.sock -m {memcached_mib} -t {threads} -I 4m {as_user}",
        ),
        System(
            "echo",
            "raw echo",
            "peers/peer_echo",
            "{queue}e:{echo.value_bytes}:{echo.groups}",
            _ECHO,
        ),
        System(
            "echo-shared",
            "raw echo, shared replies",
            "peers/peer_echo",
            "{queue}e:{echo.value_bytes}:{echo.groups}:shared",
            _ECHO,
        ),
        System("mqkv-queue", "mqkv over queues", "clientk", "{queue}", ""),
        System("lmdb", "LMDB", "peers/peer_lmdb", "{data}", ""),
        System("copy", "bare copy", "peers/peer_copy", "{data}/values:{value_bytes}:{keys}", ""),
    )
}

_APPEND_SYNC = {"none": "no", "interval": "everysec", "always": "always"}


@functools.cache
def reads_directly(clientk):
    """Whether that clientk can read without the daemon."""
    try:
        done = subprocess.run([clientk, "--help"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return "--direct" in done.stdout


class Load:
    """What a load program needs to know of a system."""

    def __init__(self, system, places, address, options=""):
        self.system = system
        self.address = address
        self.program = places.build / system.program
        self.options = options  # of the program itself, before the command

    def load_command(self, options):
        return f"{self.program} -m {self.address} {self.options} --format csv bench {options}"

    def fill(self, keys, value_bytes, seed):
        """Puts every key once, and looks at some of the values. Returns the seconds it took."""
        options = f"-n 1 -c 1 -L {value_bytes} --keys {keys} --seed {seed} --mix get=1"
        began = time.monotonic()
        processes.run_load(self.load_command(options + " --preload"), FILL_TIMEOUT_S)
        took_s = time.monotonic() - began
        if self.system.name not in (*ECHOES, "copy"):
            check = options.replace("-c 1 ", "-c 2000 ") + " --verify"
            processes.run_load(self.load_command(check), 60)
        return took_s


class Embedded(Load):
    """A system without a server: it is in the process of the load."""

    def __init__(self, system, places, folder, **fields):
        data = pathlib.Path(folder) / "data"
        data.mkdir(parents=True)
        super().__init__(system, places, system.address.format(data=data, **fields))


class Server(processes.Daemon, Load):
    """A running server of any of the systems. A context manager, as its base."""

    def __init__(self, system, places, folder, queue, sync="none", options="", echo=None):
        self.system = system
        self.folder = pathlib.Path(folder)
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        persistent = sync != "none" or system.name == "redis-aof"
        fields = {
            "build": places.build,
            "folder": self.folder,
            "data": data,
            "queue": queue,
            "sync": sync,
            "options": options,
            "append_only": "yes" if persistent else "no",
            "append_sync": _APPEND_SYNC["interval" if sync == "none" and persistent else sync],
            "threads": SERVER_THREADS,
            "memcached_mib": MEMCACHED_MIB,
            "as_user": "-u root" if os.geteuid() == 0 else "",
            "echo": echo,
        }
        self.command = system.server.format(**fields)
        Load.__init__(self, system, places, system.address.format(**fields))
        if system.name == "mqkv" and reads_directly(self.program):
            self.options = QUEUES_ONLY
        self.crashed = False
        processes.Daemon.__init__(self, self.command, queue, self.folder / "log")
        self.front = None
        if system.front:
            self.front = processes.Daemon(
                system.front.format(**fields), queue, self.folder / "front.log"
            )

    def cost(self):
        """Of all its processes."""
        own = super().cost()
        if not self.front:
            return own
        front = self.front.cost()
        return processes.Cost(own.cpu_s + front.cpu_s, own.switches + front.switches)

    def check_alive(self):
        super().check_alive()
        if self.front:
            self.front.check_alive()

    def wait_until_it_answers(self, key="k", known=False):
        """Asks for the key again and again. known: the answer must be its value."""
        ask = [str(self.program), "-m", self.address, "get", key]
        good = (0,) if known else (0, 1)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            done = subprocess.run(
                ask, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
            )
            if done.returncode in good:
                return
            self.check_alive()
            if time.monotonic() > deadline:
                raise HarnessError(f"{self.system.label} does not answer: {done.stderr.decode()}")
            time.sleep(POLL_S)

    def ask_redis(self, command):
        """One command in Redis' inline form; its answer's first line."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.address)
            connection.settimeout(START_TIMEOUT_S)
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(4096).decode().splitlines()[0]

    def crash(self):
        self.process.kill()
        self.process.wait()
        self.crashed = True

    def stop(self):
        """In an orderly way, keeping what the system keeps. Returns the seconds it took."""
        began = time.monotonic()
        if self.system.name == "redis" and self.ask_redis("SAVE") != "+OK":
            raise HarnessError("Redis could not write its RDB file")
        if not self._stop():
            raise HarnessError(f"{self.system.label} did not stop{self._last_words()}")
        return time.monotonic() - began

    def __exit__(self, kind, *rest):
        if self.front:
            self.front.__exit__(kind, *rest)
        if not self.crashed:
            super().__exit__(kind, *rest)
