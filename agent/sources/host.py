"""This machine's own CPUs, memory and disks, read from ``/proc``: real telemetry on any Linux machine.

Fields are those of ``proc(5)`` and of the kernel's ``Documentation/admin-guide/iostats.rst``.
"""

import contextlib
import os
import platform
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from epochcast.agent.config import Config
from epochcast.agent.sources import Attribute, Device, Row, Source, Tick
from epochcast.agent.sources.process_tree import COUNTERS, ProcessTree
from epochcast.common.errors import InputError

# Sectors of /proc/diskstats are 512 bytes regardless of the disk's own sector size (Documentation/block/stat.rst).
SECTOR_BYTES = 512
KIB = 1024
NANO = 1e-9
# Before the names of the metrics of the watched processes.
OF_PROCESS = "process_"


def cpu_times(stat: str) -> tuple[float, float]:
    """Return (busy, all) clock ticks of all CPUs since boot from ``/proc/stat``.

    Busy is user + nice + system + irq + softirq; idle, iowait and steal are not work of this machine, and guest time is already
    within user.
    """
    user, nice, system, idle, iowait, irq, softirq, steal = map(float, stat.partition("\n")[0].split()[1:9])
    busy = user + nice + system + irq + softirq
    return busy, busy + idle + iowait + steal


def context_switches(stat: str) -> float:
    """Return the context switches since boot from ``/proc/stat``."""
    return _field(stat, "\nctxt ")


def memory_in_use(meminfo: str) -> float:
    """Return MemTotal - MemAvailable in bytes: what is in use and could not be reclaimed without swapping."""
    return (_field(meminfo, "MemTotal:") - _field(meminfo, "MemAvailable:")) * KIB


def minor_faults(vmstat: str) -> float:
    """Return the page faults since boot that needed no disk, from ``/proc/vmstat`` (``pgfault`` counts both kinds)."""
    return _field(vmstat, "\npgfault ") - _field(vmstat, "\npgmajfault ")


def disk_bytes(diskstats: str, disks: frozenset[str]) -> tuple[float, float]:
    """Return the bytes (read from, written to) the named disks since boot, from ``/proc/diskstats``.

    Raises ValueError without disks: nothing was measured, which is not zero bytes.
    """
    if not disks:
        raise ValueError("no disk with hardware behind it")
    lines = [fields for line in diskstats.splitlines() if (fields := line.split())[2] in disks]
    read = sum(int(fields[5]) for fields in lines)  # sectors read
    written = sum(int(fields[9]) for fields in lines)  # sectors written
    return float(read * SECTOR_BYTES), float(written * SECTOR_BYTES)


def physical_disks() -> frozenset[str]:
    """Return the whole disks that have hardware behind them: a partition, a loop or a volume would count bytes twice."""
    return frozenset(disk.name for disk in Path("/sys/block").glob("*") if (disk / "device").exists())


def _field(text: str, key: str) -> float:
    return float(text[text.index(key) + len(key) :].split(maxsplit=1)[0])


class HostSource(Source):
    """The one device of this machine's CPUs, memory and disks, and of what the watched processes use of them.

    Rates are over the time since the previous reading, so that a missed tick loses nothing. A file or field that this kernel
    does not offer leaves its metrics out, with the reason in `Device.unmeasured`.
    """

    name = "host"
    silent_after = 3.0

    def __init__(
        self,
        config: Config,
        only: frozenset[str] | None = None,
        proc: Path = Path("/proc"),
        disks: frozenset[str] | None = None,
    ) -> None:
        uuid = f"host-{platform.node()}"
        if only is not None and uuid not in only:
            raise InputError(f"source 'host' sees only {uuid}, not {', '.join(sorted(only))}; choose another source")
        self.blanks = Counter[tuple[int, str]]()
        if disks is None:
            disks = physical_disks()
        readers: dict[str, tuple[str, Callable[[str], list[float]]]] = {
            "stat": ("cpu_utilization context_switches", lambda text: [*cpu_times(text), context_switches(text)]),
            "meminfo": ("rss", lambda text: [memory_in_use(text)]),
            "vmstat": ("minor_faults", lambda text: [minor_faults(text)]),
            "diskstats": ("disk_read disk_write", lambda text: [*disk_bytes(text, disks)]),
        }
        # Kept open: read again from the start, a file of `/proc` has its present content.
        self._files: dict[str, tuple[TextIO, Callable[[str], list[float]]]] = {}
        measured: set[str] = set()
        unmeasured: dict[str, str] = {}
        for file, (names, reader) in readers.items():
            try:
                reader((proc / file).read_text())
                opened = (proc / file).open()
            except (OSError, ValueError, IndexError) as error:
                unmeasured |= dict.fromkeys(names.split(), f"{proc / file} cannot be read: {error}")
            else:
                self._files[file] = opened, reader
                measured |= set(names.split())
        self._tree: ProcessTree | None = None
        if config.process_root is not None:
            of_processes = {OF_PROCESS + name for name in ("cpu_utilization", *COUNTERS[1:], "rss", "threads")}
            try:
                self._tree = ProcessTree(config.process_root, proc)
            except OSError as error:
                unmeasured |= dict.fromkeys(of_processes, f"processes cannot be read: {error}")
            else:
                measured |= of_processes
        if not measured:
            raise InputError(f"source 'host' finds nothing to read under {proc}; it needs Linux with /proc mounted")
        self._metrics = tuple(metric for metric in config.metrics().values() if metric.name in measured)
        self.devices = (
            Device(
                index=0,
                uuid=uuid,
                name=_cpu_model(proc),
                source=self.name,
                metrics=self._metrics,
                static=_static(proc),
                unmeasured=unmeasured,
            ),
        )
        self._cpus = os.cpu_count() or 1
        self._before: dict[str, list[float]] = {}
        self._before_time = 0.0

    def read(self, tick: Tick) -> Sequence[Row]:
        """Return this tick's row; the first one has no rates yet."""
        now = {}
        for name, (file, reader) in self._files.items():
            file.seek(0)
            now[name] = reader(file.read())
        if self._tree is not None:
            counters, resident, threads = self._tree.read()
            now[OF_PROCESS] = [*counters, resident, threads]
        values = self._values(now, tick.elapsed - self._before_time)
        self._before, self._before_time = now, tick.elapsed
        return [Row(0, tick.time, [values.get(metric.name, np.nan) for metric in self._metrics])]

    def _values(self, now: dict[str, list[float]], seconds: float) -> dict[str, float]:
        values: dict[str, float] = {}
        if "meminfo" in now:
            values["rss"] = now["meminfo"][0]
        if OF_PROCESS in now:
            values[OF_PROCESS + "rss"], values[OF_PROCESS + "threads"] = now[OF_PROCESS][-2:]
        if not self._before or seconds <= 0:
            return values
        change = {file: [b - a for a, b in zip(self._before[file], now[file], strict=True)] for file in now}
        if "stat" in change:
            busy, everything, switches = change["stat"]
            # The kernel may take back some iowait, hence the clip; no tick of any CPU passed: nothing is known.
            values["cpu_utilization"] = min(max(busy / everything, 0.0), 1.0) if everything > 0 else np.nan
            values["context_switches"] = switches / seconds
        if "vmstat" in change:
            values["minor_faults"] = max(change["vmstat"][0], 0.0) / seconds
        if "diskstats" in change:
            # A disk that was unplugged takes its bytes with it, hence the clip.
            values["disk_read"], values["disk_write"] = (max(moved, 0.0) / seconds for moved in change["diskstats"])
        if OF_PROCESS in change:
            ran, *counted = change[OF_PROCESS][: len(COUNTERS)]
            # The clocks of the processes and of the tick are not read at one moment, hence the clip.
            values[OF_PROCESS + "cpu_utilization"] = min(ran * NANO / seconds / self._cpus, 1.0)
            values |= {OF_PROCESS + name: value / seconds for name, value in zip(COUNTERS[1:], counted, strict=True)}
        return values

    def close(self) -> None:
        """Close the files."""
        for file, _ in self._files.values():
            file.close()
        if self._tree is not None:
            self._tree.close()


def _cpu_model(proc: Path) -> str:
    try:
        lines = (proc / "cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    # Arm kernels give no model name.
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _static(proc: Path) -> dict[str, Attribute]:
    facts = {"cpus": Attribute(os.cpu_count() or 1, "proc")}
    with contextlib.suppress(OSError, ValueError):
        facts["memory_total"] = Attribute(int(_field((proc / "meminfo").read_text(), "MemTotal:")) * KIB, "proc")
    return facts
