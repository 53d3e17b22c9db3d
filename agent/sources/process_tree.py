"""What a process and all its descendants, or the processes of a cgroup, use: read from ``/proc`` without privileges.

Fields are those of ``proc_pid_stat(5)``, ``proc_pid_io(5)`` and the kernel's ``Documentation/scheduler/sched-stats.rst``.
"""

import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from operator import add, sub
from pathlib import Path

from epochcast.common.errors import InputError

# Counters in the order of `ProcessTree.read`. A parent that waits for a child inherits all of these but the last.
COUNTERS = (
    "cpu_time",
    "minor_faults",
    "major_faults",
    "read",
    "write",
    "disk_read",
    "disk_write",
    "context_switches",
)
MINOR_FAULTS = COUNTERS.index("minor_faults")
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Every file that is read here fits; most fit into the first.
USUAL_FILE, LARGEST_FILE = 448, 4096
# The CPU clock of a process is a clock of this kind and the complement of its number (clock_getcpuclockid(3) makes the same).
CPU_CLOCK = 2


class ProcessTree:
    """The processes below ``root``: a process with its descendants, including later ones and orphans, or a cgroup.

    The agent itself is left out. An agent whose own parent is ``root`` leaves that out too, with what it had started by then:
    what it starts from now on is meant. A process is missed that a short-lived one started and left behind between two
    readings. Raises InputError if there is no such process or cgroup, OSError if ``proc`` does not show this process.
    """

    def __init__(self, root: int | Path, proc: Path = Path("/proc")) -> None:
        self._root = root
        self._folder = str(proc)
        self._highest = [0] * len(COUNTERS)
        self._processes: dict[int, _Process] = {}
        # Of a process that has ended the last reading counts, until its parent has inherited what it used.
        self._of_ended = [0] * len(COUNTERS)
        self._ended: list[_Process] = []
        self._others = {os.getpid()}
        self._newest = b""
        for file in ("io", "schedstat"):
            (proc / "self" / file).read_bytes()
        # Two files per process and one per thread are kept open; the usual soft limit is 1024.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if isinstance(root, Path):
            if not (root / "cgroup.procs").is_file():
                raise InputError(f"there is no cgroup {str(root)!r}; give its folder, as in /sys/fs/cgroup/system.slice/NAME")
        elif root == os.getppid():
            self._others = set(self._listed()) - {root}
        else:
            try:
                self._processes[root] = _Process(root, self._folder)
            except OSError:
                raise InputError(f"there is no process {root} to sample; give the number of a running process") from None

    def read(self) -> tuple[list[int], int, int]:
        """Return the counters (as `COUNTERS`; ns, faults, bytes, switches), which never go down, resident bytes and threads."""
        if isinstance(self._root, Path):
            self._discover_in_cgroup(self._root)
        else:
            self._discover_descendants(self._root)
        inherited: dict[int, int] = {}
        # Parents come before their children: when a parent has inherited by its reading, the child has ended by its own.
        for pid, process in list(self._processes.items()):
            faults = process.inherited_faults
            try:
                process.read()
            except OSError:
                process.close()
                del self._processes[pid]
                self._of_ended = list(map(add, self._of_ended, process.counters))
                if process.counters[MINOR_FAULTS]:  # it was read before; no process runs without faults
                    self._ended.append(process)
            else:
                if process.inherited_faults != faults:
                    inherited[pid] = process.inherited_faults - faults
        self._settle(inherited)
        alive = self._processes.values()
        total = map(sum, zip(self._of_ended, *(process.counters for process in alive), strict=True))
        # The CPU clocks are finer than the ticks in which parents inherit.
        self._highest = list(map(max, self._highest, total))
        return self._highest, PAGE_BYTES * sum(process.pages for process in alive), sum(process.threads for process in alive)

    def close(self) -> None:
        """Close the files."""
        for process in self._processes.values():
            process.close()

    def _settle(self, inherited: dict[int, int]) -> None:
        """Subtract what ended processes used where their parents now count it; ``inherited``: minor faults by parent."""
        waiting = []
        heirs = {process.pid: process.parent for process in self._ended}
        for process in self._ended:
            heir = process.parent
            while heir in heirs:
                heir = heirs[heir]
            if inherited.get(heir, 0) >= process.counters[MINOR_FAULTS]:
                inherited[heir] -= process.counters[MINOR_FAULTS]
                *inheritable, _ = process.counters
                self._of_ended = list(map(sub, self._of_ended, [*inheritable, 0]))
            elif not process.settling:  # the parent may have been read just before it waited
                process.settling = True
                waiting.append(process)
        self._ended = waiting

    def _discover_in_cgroup(self, root: Path) -> None:
        for folder, _, files in os.walk(root):
            if "cgroup.procs" in files:
                with suppress(OSError):  # a cgroup inside has just gone
                    for pid in map(int, Path(folder, "cgroup.procs").read_bytes().split()):
                        self._add(pid)

    def _discover_descendants(self, root: int) -> None:
        # The last field is the newest process number of all: while it stays, there is no new process.
        newest = _text(f"{self._folder}/loadavg").split()[-1]
        if newest == self._newest:
            return
        present = set(self._listed())
        self._others &= present
        parents: dict[int, int] = {}
        for pid in present - self._others - self._processes.keys() - {root}:
            with suppress(OSError):
                parents[pid] = int(_fields(_text(f"{self._folder}/{pid}/stat"))[1])
        while children := [pid for pid, parent in parents.items() if parent in self._processes or parent == root]:
            for pid in children:
                del parents[pid]
                self._add(pid)
        # A process is undecided while its parent came after the folder was listed.
        undecided = {pid for pid, parent in parents.items() if parent and parent not in present}
        self._others |= parents.keys() - undecided
        self._newest = b"" if undecided else newest

    def _add(self, pid: int) -> None:
        if pid not in self._processes and pid not in self._others:
            with suppress(OSError):
                self._processes[pid] = _Process(pid, self._folder)

    def _listed(self) -> Iterator[int]:
        return map(int, filter(str.isdecimal, os.listdir(self._folder)))  # noqa: PTH208 (iterdir costs three times as much)


class _Process:
    """One process.

    ``counters``: as of `ProcessTree.read`, with those of children that it waited for. ``inherited_faults``: minor faults of the
    latter. ``pages``: resident. ``settling``: it has ended, and its parent had not inherited from it when that was seen.
    """

    def __init__(self, pid: int, proc: str) -> None:
        self.pid = pid
        self.parent = 0
        self.counters = [0] * len(COUNTERS)
        self.inherited_faults = self.pages = self.threads = 0
        self.settling = False
        self._clock = ~pid << 3 | CPU_CLOCK
        self._ran = -1
        self._folder = f"{proc}/{pid}"
        self._stat = _open(f"{self._folder}/stat")
        self._io: int | None = None
        with suppress(PermissionError):  # another user's, or one that changed its user
            self._io = _open(f"{self._folder}/io")
        self._files: dict[str, int] = {}
        self._switches: dict[str, int] = {}
        self._switches_before = 0

    def read(self) -> None:
        """Read the process again, if it has run at all since; OSError if it has ended."""
        try:
            ran = time.clock_gettime_ns(self._clock)
        except OSError:  # it has ended, or this kernel has no such clocks
            ran = -1
        if ran == self._ran >= 0:
            return
        fields = _fields(_content(self._stat))
        faults, child_faults, major, child_major, user, system, child_user, child_system = map(int, fields[7:15])
        threads = int(fields[17])
        inout = self.counters[3:7]
        if self._io is not None:
            # Reading another's needs permission each time: it may have become another user's.
            with suppress(PermissionError):
                words = _content(self._io).split()
                inout = [int(words[1]), int(words[3]), int(words[9]), int(words[11])]
        switches = self._read_switches(threads)
        self._ran = ran
        self.parent, self.threads, self.pages = int(fields[1]), threads, int(fields[21])
        own_time = ran if ran >= 0 else (user + system) * TICK_NS
        self.inherited_faults = child_faults
        self.counters = [
            own_time + (child_user + child_system) * TICK_NS,
            faults + child_faults,
            major + child_major,
            *inout,
            switches,
        ]

    def _read_switches(self, threads: int) -> int:
        """Return how often its threads got a CPU; of a thread that has ended the last reading counts."""
        ended = []
        for thread, file in self._files.items():
            try:
                self._switches[thread] = int(_content(file).split()[2])
            except OSError:
                ended.append(thread)
        for thread in ended:
            os.close(self._files.pop(thread))
            self._switches_before += self._switches.pop(thread, 0)
        if len(self._files) != threads:
            for thread in set(os.listdir(f"{self._folder}/task")) - self._files.keys():  # noqa: PTH208
                with suppress(OSError):
                    self._files[thread] = _open(f"{self._folder}/task/{thread}/schedstat")
                    self._switches[thread] = int(_content(self._files[thread]).split()[2])
        return self._switches_before + sum(self._switches.values())

    def close(self) -> None:
        """Close the files."""
        for file in (self._stat, self._io, *self._files.values()):
            if file is not None:
                os.close(file)


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _content(file: int) -> bytes:
    text = os.pread(file, USUAL_FILE, 0)
    return text if len(text) < USUAL_FILE else os.pread(file, LARGEST_FILE, 0)


def _text(path: str) -> bytes:
    file = _open(path)
    try:
        return _content(file)
    finally:
        os.close(file)


def _fields(stat: bytes) -> list[bytes]:
    """Return the fields of a stat file from the third, the state, on: the second, the command's name, may hold anything."""
    return stat.rpartition(b")")[2].split(maxsplit=22)
