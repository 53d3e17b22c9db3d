"""What the analysis of a whole fleet costs: GPU-hours per core-hour, and memory, by each way to run it.

    OMP_NUM_THREADS=1 python -m lab.speed.fleet.throughput [--gpus 64] [--minutes 10]

Simulated telemetry (`lab.simulated_fleet`, one trace in fifty broken). The same traces are analysed by one process, by two, and
by a Dask cluster (a scheduler and two workers, processes of their own on the loopback). 10 000 GPUs are extrapolated: processor
seconds of a trace in its worker times their number. That all ways make the same tables is tested (`tests/analyzer/fleet`).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from lab.speed.page import ROOT, markdown_table, options
from lab.speed.processes import connects, cpu_seconds, free_port, memory, running

WORKERS = 2
MANY = 10_000
LOOK_S = 1.0
ROWS: dict[str, Callable[["Run", int, float], str]] = {
    "processor seconds per trace, all processes, start and report included": lambda run, gpus, hours: f"{run.cpu_s / gpus:.2f}",
    "GPU-hours per core-hour": lambda run, gpus, hours: f"{3600 * hours / run.cpu_s:.0f}",
    "seconds passed": lambda run, gpus, hours: f"{run.wall_s:.0f}",
    "1-minute load of the machine when it ended": lambda run, gpus, hours: f"{run.load:.1f}",
    "most memory (PSS): command [MB]": lambda run, gpus, hours: f"{run.parent / 1e6:.0f}",
    "its largest worker [MB]": lambda run, gpus, hours: f"{run.largest / 1e6:.0f}",
    "all processes together [MB]": lambda run, gpus, hours: f"{run.total / 1e6:.0f}",
}


@dataclass(frozen=True)
class Run:
    """What a command took.

    Attributes:
        status: its exit code, negative where a signal ended it.
        wall_s, cpu_s: seconds passed, and of processors (user and system, with all processes that it waited for).
        load: the machine's 1-minute load when it ended.
        parent, largest, total: most memory at one moment (PSS) of the command itself, of another process, of all [bytes].
        output: what it wrote to standard output.
    """

    status: int
    wall_s: float
    cpu_s: float
    load: float
    parent: int
    largest: int
    total: int
    output: str


def run_command(
    arguments: Sequence[object], folder: Path, *, module: str = "epochcast.analyzer", beside: Sequence[int] = ()
) -> Run:
    """Run ``epochcast``, or a module of the workshop, in a folder.

    Memory and processor time of the processes ``beside`` it (a cluster's, by their ids) count as its own.
    """
    began, cpu_before = time.monotonic(), cpu_seconds(*beside)
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with (folder / "output").open("w") as output, (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=errors, env=environment)
        most, sampled = (0, 0, 0), 0.0
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            if time.monotonic() - sampled > LOOK_S:
                sampled = time.monotonic()
                held = {pid: one.proportional for pid, one in memory(process.pid, *beside).items()}
                others = [size for pid, size in held.items() if pid != process.pid]
                now = held.get(process.pid, 0), max(others, default=0), sum(held.values())
                most = max(most[0], now[0]), max(most[1], now[1]), max(most[2], now[2])
            time.sleep(0.05)
    _, status, usage = ended
    process.returncode = os.waitstatus_to_exitcode(status)
    wall_s, cpu_s = time.monotonic() - began, usage.ru_utime + usage.ru_stime + cpu_seconds(*beside) - cpu_before
    return Run(process.returncode, wall_s, cpu_s, os.getloadavg()[0], *most, (folder / "output").read_text())


@contextmanager
def dask_cluster(workers: int) -> Iterator[tuple[str, list[int]]]:
    """A Dask scheduler and workers of one thread each, as real processes; gives its address and the processes' ids."""
    port = free_port()
    address, here = f"tcp://127.0.0.1:{port}", ("--host", "127.0.0.1", "--no-dashboard")
    dask = Path(sys.executable).with_name("dask")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as started:
        scheduler = running([dask, "scheduler", "--port", port, *here], ready=partial(connects, port))
        worker = [dask, "worker", address, "--nthreads", 1, "--local-directory", scratch, *here]
        programs = [scheduler, *(running(worker, environment={"OMP_NUM_THREADS": "1"}) for _ in range(workers))]
        yield address, [started.enter_context(program) for program in programs]


class Fleet:
    """A simulated fleet in a folder, and its analyses next to it."""

    def __init__(self, base: Path, gpus: int, minutes: float, seed: int) -> None:
        self.base, self.gpus, self.hours, self.folder = base, gpus, gpus * minutes / 60, base / "fleet"
        size = ["--gpus", gpus, "--minutes", minutes, "--seed", seed, "--broken", 0.02, "--processes", 2]
        made = run_command(["--out", self.folder, *size, "--json"], base, module="lab.simulated_fleet")
        self.written = f"{made.cpu_s / gpus:.2f} processor seconds and {json.loads(made.output)['bytes'] / gpus / 1e6:.2f} MB"

    def analyse(self, name: str, *more: object, beside: Sequence[int] = ()) -> Run:
        """Analyse all traces into the folder ``name``."""
        nodes, out = self.folder / "nodes.csv", self.base / name
        command = ["fleet", "analyze", self.folder / "traces", "--nodes", nodes, "--out", out, "--json", *more]
        done = run_command(command, self.base, beside=beside)
        if done.status > 0:
            raise SystemExit(f"the analysis ended with {done.status}: {(self.base / 'errors').read_text()}")
        return done


def measured(gpus: int, minutes: float, seed: int) -> Iterator[str]:
    """Yield the part."""
    with tempfile.TemporaryDirectory() as base:
        fleet = Fleet(Path(base), gpus, minutes, seed)
        yield f"*Simulated*: {gpus} GPUs for {minutes:g} minutes each, 26 metrics at 10 Hz, on {os.cpu_count()} cores."
        yield "Other programs ran at the same time (see the load), so compare processor seconds, not seconds passed."
        yield ""
        runs = {"1 process": fleet.analyse("1", "--processes", 1), "2 processes": fleet.analyse("2", "--processes", 2)}
        with dask_cluster(WORKERS) as (address, processes):
            by_dask = fleet.analyse("dask", "--scheduler", address, beside=processes)
        runs[f"Dask: scheduler, {WORKERS} workers"] = by_dask
        rows = [(title, *(cell(run, gpus, fleet.hours) for run in runs.values())) for title, cell in ROWS.items()]
        yield from markdown_table(("", *runs), rows)
        yield ""
        each = float(pd.read_parquet(fleet.base / "1" / "gpus.parquet")["cpu_s"].mean())
        yield f"A trace takes {each:.2f} processor seconds in its worker, nearly all of it the search for epochs."
        yield f"{MANY} such GPUs ({MANY * minutes / 60:.0f} GPU-hours), **extrapolated**: {MANY * each / 3600:.1f} core-hours."
        yield f"Writing such a fleet takes {fleet.written} per GPU (Parquet, zstd)."


def main() -> None:
    """Measure; print the figures."""
    parser = options(__doc__, page=False)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for line in measured(arguments.gpus, arguments.minutes, arguments.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
