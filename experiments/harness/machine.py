"""Facts about this machine and this build for the manifest, and how busy the machine is."""

import hashlib
import os
import pathlib
import resource
import subprocess

from harness import commit

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def facts(repository, build, store_parent):
    """What a reader needs to judge or repeat the figures; what cannot be had is 'unknown'."""
    return {
        **commit.facts(repository),
        "compiler": _output(["gcc", "--version"]).splitlines()[0],
        "built_with": build_flags(build / "serverk"),
        "program_hash": program_hash(build),
        "kernel": _output(["uname", "-srv"]),
        "distribution": _field("/etc/os-release", "PRETTY_NAME=").strip('"'),
        "libc": " ".join(os.confstr("CS_GNU_LIBC_VERSION").split()),
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "cpu_governor": _file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "cpu_vulnerabilities": _vulnerabilities(),
        "virtualisation": _virtualisation(),
        "memory_kib": _field("/proc/meminfo", "MemTotal:").split()[0],
        "transparent_huge_pages": _file("/sys/kernel/mm/transparent_hugepage/enabled"),
        "mqueue_msg_max": _file("/proc/sys/fs/mqueue/msg_max"),
        "mqueue_msgsize_max": _file("/proc/sys/fs/mqueue/msgsize_max"),
        "mqueue_queues_max": _file("/proc/sys/fs/mqueue/queues_max"),
        "ulimit_q_bytes": resource.getrlimit(resource.RLIMIT_MSGQUEUE)[0],
        "store": _mount_of(store_parent),
    }


def program_hash(build, more=()):
    """Identifies the programs measured: rows of different programs are never mixed."""
    digest = hashlib.sha256()
    for name in ("serverk", "clientk", *more):
        try:
            digest.update((build / name).read_bytes())
        except OSError:
            digest.update(b"absent")
    return digest.hexdigest()[:16]


def build_flags(program):
    """The compiler's own record of how it was called, from the debug information."""
    listing = _output(["readelf", "--debug-dump=info", "--dwarf-depth=1", str(program)])
    for line in listing.splitlines():
        if "DW_AT_producer" in line:
            return line.rsplit(": ", 1)[-1].strip()
    return "unknown"


def cpu_model():
    return _field("/proc/cpuinfo", "model name").lstrip("\t: ") or "unknown"


def available_bytes():
    """Memory that programs can have without swapping."""
    return int(_field("/proc/meminfo", "MemAvailable:").split()[0]) * 1024


def load_average():
    return os.getloadavg()[0]


class CpuWindow:
    """How much CPU all of the machine used since this was made, and how much was stolen from it."""

    def __init__(self):
        self.begin = _cpu_ticks()

    def end(self):
        """(busy seconds, stolen seconds, seconds in all), over all CPUs together."""
        busy, stolen, total = (now - then for now, then in zip(_cpu_ticks(), self.begin))
        return busy / TICKS_PER_SECOND, stolen / TICKS_PER_SECOND, total / TICKS_PER_SECOND


def disturbance(ended, own_s):
    """Columns of a row: what was stolen, and what others used. ended: of CpuWindow.end(); own_s:
    CPU time used for the run meanwhile."""
    busy_s, stolen_s, total_s = ended
    return {
        "steal_pct": f"{100 * stolen_s / max(total_s, 1e-9):.2f}",
        "foreign_cpu_pct": f"{100 * max(busy_s - own_s, 0.0) / max(total_s, 1e-9):.2f}",
    }


def _cpu_ticks():
    with open("/proc/stat", encoding="ascii") as file:
        # user nice system idle iowait irq softirq steal: see proc(5)
        user, nice, system, idle, iowait, irq, softirq, steal = map(
            int, file.readline().split()[1:9]
        )
    busy = user + nice + system + irq + softirq
    return busy, steal, busy + steal + idle + iowait


def _output(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip() or "unknown"


def _file(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return "unknown"


def _field(path, prefix):
    for line in _file(path).splitlines():
        if line.startswith(prefix):
            return line[len(prefix) :].strip()
    return "unknown"


def _virtualisation():
    found = [_output(["systemd-detect-virt", kind]) for kind in ("--vm", "--container")]
    names = [name for name in found if name not in ("unknown", "none")]
    if names:
        return ", ".join(names)
    return "a hypervisor" if " hypervisor" in _field("/proc/cpuinfo", "flags") else "none seen"


def _vulnerabilities():
    folder = pathlib.Path("/sys/devices/system/cpu/vulnerabilities")
    states = {path.name: _file(path) for path in sorted(folder.glob("*"))}
    return {name: state for name, state in states.items() if state != "Not affected"}


def _mount_of(path):
    source = _output(["findmnt", "-n", "-o", "SOURCE,FSTYPE,OPTIONS", "--target", str(path)])
    return f"{path}: {source.splitlines()[-1]}"  # the last of what is mounted over another
