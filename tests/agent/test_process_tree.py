"""The counters of real process trees: what ended children used stays in the sum, however they end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest

from epochcast.agent.choose import choose
from epochcast.agent.config import Config
from epochcast.agent.sources import Tick
from epochcast.agent.sources.process_tree import COUNTERS, ProcessTree
from epochcast.common.errors import InputError

from ..processes import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process trees are read from Linux's /proc")

MB = 1_000_000
# Lives long enough to be seen, and writes a megabyte and works for 0.1 s before it ends.
WORKER = f"""
import os, time
time.sleep(0.2)
os.write(os.open({os.devnull!r}, os.O_WRONLY), bytes({MB}))
while time.process_time() < 0.12: pass
time.sleep(0.5)
"""
# Five ways to have a child: wait for it, never wait, have the kernel wait, be outlived by it, let a child wait for its own.
PARENTS = {
    "waits": "[child.wait() for child in [start(), start()]]",
    "does not wait": "start(); time.sleep(2); start(); time.sleep(2)",
    "ignores": "signal.signal(signal.SIGCHLD, signal.SIG_IGN); start(); start(); time.sleep(2)",
    "is outlived": "start(); start(); time.sleep(0.3)",
    "has grandchildren": "subprocess.run([sys.executable, '-c', own + '[child.wait() for child in [start(), start()]]'])",
}


@contextmanager
def running(code: str) -> Iterator[subprocess.Popen[bytes]]:
    own = (
        "import os, signal, subprocess, sys, time\n"
        f"start = lambda: subprocess.Popen([sys.executable, '-S', '-E', '-c', {WORKER!r}])\n"
    )
    # It waits for a line, so that the tree is watched before it grows.
    whole = f"own = {own!r}\nexec(own)\nsys.stdin.readline()\n{code}"
    with subprocess.Popen([sys.executable, "-c", whole], stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def go(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.flush()


def watch(tree: ProcessTree, done: Callable[[], bool], seconds: float = 60) -> list[dict[str, int]]:
    """Read ten times a second until the process is done, and a few times more."""
    seen = []
    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        seen.append(dict(zip(COUNTERS, tree.read()[0], strict=True)))
        time.sleep(0.05)
    for _ in range(3):
        seen.append(dict(zip(COUNTERS, tree.read()[0], strict=True)))
    return seen


@pytest.mark.parametrize("way", PARENTS)
def test_what_ended_children_used_stays_in_the_sum(way: str) -> None:
    with running(PARENTS[way]) as process:
        tree = ProcessTree(process.pid)
        first = dict(zip(COUNTERS, tree.read()[0], strict=True))
        go(process)
        seen = watch(tree, lambda: process.poll() is not None and tree.read()[2] == 0)
        tree.close()
    for name in COUNTERS:
        assert (np.diff([row[name] for row in seen]) >= 0).all(), name
    last = seen[-1]
    # Once each: two workers' megabytes and a few bytes of the interpreters' own.
    assert 2 * MB <= last["write"] - first["write"] < 2.1 * MB
    # Two workers at 0.12 s, and what starting them takes; not counted twice.
    assert 0.2e9 <= last["cpu_time"] - first["cpu_time"] < 0.24e9 + 0.3e9 * (2 if "grand" in way else 1)
    assert last["minor_faults"] > first["minor_faults"] + 100
    assert last["context_switches"] > first["context_switches"] + 5


def test_children_that_no_reading_sees_count_through_the_parent_that_waits(tmp_path: Path) -> None:
    children = f"[subprocess.run(['head', '-c', '{MB}', '/dev/zero'], stdout=-3) for _ in range(20)]"
    with running(f"{children}; os.mkdir({str(tmp_path / 'all')!r}); time.sleep(60)") as process:
        tree = ProcessTree(process.pid)
        first = tree.read()[0]
        go(process)
        wait_until((tmp_path / "all").exists)
        last = tree.read()[0]
    write = COUNTERS.index("write")
    assert 20 * MB <= last[write] - first[write] < 20.1 * MB


def test_ended_threads_stay_in_the_switches(tmp_path: Path) -> None:
    work = "lambda: [time.sleep(0.005) for _ in range(50)]"
    threads = f"for _ in range(8): thread = threading.Thread(target={work}); thread.start(); thread.join()"
    with running(f"import threading\n{threads}\nos.mkdir({str(tmp_path / 'all')!r}); time.sleep(60)") as process:
        tree = ProcessTree(process.pid)
        go(process)
        switches = [row["context_switches"] for row in watch(tree, (tmp_path / "all").exists)]
    assert (np.diff(switches) >= 0).all()
    assert switches[-1] >= switches[0] + 200  # of 400, of which the last of each thread are in no reading


def test_memory_and_threads_are_of_those_alive() -> None:
    with running("child = start(); time.sleep(30)") as process:
        tree = ProcessTree(process.pid)
        _, alone, threads = tree.read()
        assert threads == 1
        go(process)

        def both() -> bool:
            _, memory, threads = tree.read()
            return threads == 2 and memory > alone + 3 * MB

        wait_until(both)
        process.kill()
        process.wait()
        wait_until(lambda: tree.read()[1:] == (0, 0))


def test_a_kernel_without_clocks_of_processes_has_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_clock(clock: int) -> int:
        raise OSError(clock)

    monkeypatch.setattr(time, "clock_gettime_ns", no_such_clock)
    with running("while os.times().system < 0.1: os.stat('/')\ntime.sleep(60)") as process:
        tree = ProcessTree(process.pid)
        go(process)
        before, counters, after = (0, 0), [0], (0, 1)
        while before != after or after[1] < 0.1 * os.sysconf("SC_CLK_TCK"):
            before = user_and_system_ticks(process.pid)
            counters = tree.read()[0]
            after = user_and_system_ticks(process.pid)
        assert counters[COUNTERS.index("cpu_time")] == sum(after) * 10**9 // os.sysconf("SC_CLK_TCK")


def user_and_system_ticks(pid: int) -> tuple[int, int]:
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return int(user), int(system)


def test_what_runs_beside_the_agent_is_left_out_and_what_its_parent_starts_later_is_not() -> None:
    """The agent of `record`: a child of what runs the command."""
    reader = (
        "import sys; from epochcast.agent.sources.process_tree import ProcessTree\n"
        "import os; tree = ProcessTree(os.getppid()); print(tree.read()[2], flush=True)\n"
        "sys.stdin.readline(); print(tree.read()[2], flush=True)\n"
    )
    before = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with subprocess.Popen([sys.executable, "-c", reader], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdin is not None and agent.stdout is not None
        assert agent.stdout.readline() == "0\n"
        after = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        agent.stdin.write("\n")
        agent.stdin.flush()
        assert agent.stdout.readline() == "1\n"
    for process in (before, after):
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_the_processes_of_a_cgroup(tmp_path: Path) -> None:
    """A folder as the kernel shows it: this machine need not let us make cgroups."""
    inner = tmp_path / "step_0"
    inner.mkdir()
    (tmp_path / "cgroup.procs").write_text("")
    with running("start().wait()") as process:
        (inner / "cgroup.procs").write_text(f"{process.pid}\n{os.getpid()}\n")
        tree = ProcessTree(tmp_path)
        assert tree.read()[2] == 1
        go(process)
        wait_until(lambda: psutil.Process(process.pid).children())
        assert tree.read()[2] == 1  # its child is not in the cgroup


def test_the_host_source_adds_rates_of_the_tree() -> None:
    with running("os.write(os.open(os.devnull, os.O_WRONLY), bytes(1_000_000))\nwhile True: pass") as process:
        (source,), _ = choose(Config(source="host", pid=process.pid))
        names = [metric.name for metric in source.devices[0].metrics]
        began = time.monotonic()
        source.read(Tick(time.time(), 0.0, slow=True, rare=True))
        go(process)
        wait_until(lambda: psutil.Process(process.pid).io_counters().write_chars >= MB)
        time.sleep(0.3)
        elapsed = time.monotonic() - began
        (row,) = source.read(Tick(time.time(), elapsed, slow=True, rare=True))
        longest = time.monotonic() - began
        source.close()
    values = dict(zip(names, row.values, strict=True))
    assert values["process_write"] == pytest.approx(MB / elapsed, rel=0.01)
    assert 0 < values["process_cpu_utilization"] <= longest / elapsed / (os.cpu_count() or 1) + 0.01
    assert values["process_threads"] == 1


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [("pid", 2**22 + 1, "there is no process 4194305"), ("cgroup", Path("/nowhere"), "there is no cgroup '/nowhere'")],
)
def test_what_is_not_there_is_refused(setting: str, value: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        choose(Config(source="host", **{setting: value}))
