"""What sampling a tree of 50 processes costs at 10 Hz, next to psutil reading the same counters of the same processes.

    python -m lab.speed.agent.process_tree [--seconds 30]

Twice: every process works a little 50 times a second (a loader's workers, say), and all of them sleep.
"""

import argparse
import sys
import time
from collections.abc import Callable

import psutil

from epochcast.agent.sources.process_tree import ProcessTree
from lab.speed.processes import running, tree

PROCESSES, HERTZ = 50, 10
WORK = {"working": "while True:\n sum(range(2000)); time.sleep(0.02)", "asleep": "time.sleep(3600)"}
PARENT = """
import subprocess, sys, time
children = [subprocess.Popen([sys.executable, "-S", "-c", "import time\\n" + {work!r}]) for _ in range({number})]
time.sleep(3600)
"""


def psutil_reader(pid: int) -> Callable[[], object]:
    """Return what reads the counters of a process and its descendants as psutil's users do."""
    root = psutil.Process(pid)

    def read() -> int:
        total = 0
        for process in (root, *root.children(recursive=True)):
            with process.oneshot():
                switches, used = process.num_ctx_switches(), process.io_counters()
                total += process.memory_info().rss + process.num_threads() + switches.voluntary + used.write_chars
                process.cpu_times()
        return total

    return read


def cost(read: Callable[[], object], seconds: float) -> float:
    """Return the share of a core that reading at 10 Hz takes."""
    read()
    began, cpu = time.monotonic(), time.process_time()
    for tick in range(1, round(seconds * HERTZ) + 1):
        read()
        time.sleep(max(0.0, began + tick / HERTZ - time.monotonic()))
    return (time.process_time() - cpu) / (time.monotonic() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each measurement (default 30)")
    seconds = parser.parse_args().seconds
    for name, work in WORK.items():
        with running([sys.executable, "-c", PARENT.format(work=work, number=PROCESSES - 1)]) as pid:
            while len(tree(pid)) < PROCESSES:
                time.sleep(0.1)
            time.sleep(2)
            ours, peer = cost(ProcessTree(pid).read, seconds), cost(psutil_reader(pid), seconds)
        print(f"{name}: {ours:.2%} of a core, psutil {peer:.2%}, {peer / ours:.1f} times as much")


if __name__ == "__main__":
    main()
