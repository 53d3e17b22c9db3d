"""What the analysis of a whole fleet costs: GPU-hours per core-hour, memory, and whether every way to run it tells the same.

    OMP_NUM_THREADS=1 python -m lab.speed.fleet.throughput [--gpus 64 192] [--minutes 10] [--write]

Simulated telemetry (`lab.simulated_fleet`, one trace in fifty broken). The same traces are analysed by one process, by
two, by Dask clusters (a scheduler and one, two and four workers, processes of their own on the loopback), and by a run that is
killed (SIGKILL) in the middle and started again; their tables must be the same bytes but for the processor time. What it takes
to hand a batch to a worker is measured with batches that nobody has anything to do with. Next to that a plain loop over
`epochcast detect`, a process for each trace, as one would write it in a shell. What was found is compared with the truth; that
alone is done for every further number of GPUs, by two processes. 10 000 GPUs are extrapolated: processor seconds of a trace in
its worker times their number.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from epochcast.analyzer.fleet.dask_cluster import DaskCluster
from epochcast.analyzer.fleet.execution import LocalProcesses, Workers, worked_on
from lab.speed.fleet.against_truth import compared
from lab.speed.page import FLEET, ROOT, markdown_table, options, publish
from lab.speed.processes import connects, cpu_seconds, free_port, memory, running

WORKERS, BATCHES = (1, 2, 4), 400
TABLES = ("gpus", "spans", "epochs", "jobs", "failures")
MANY = 10_000
LOOPED = 8
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
    arguments: Sequence[object],
    folder: Path,
    *,
    module: str = "epochcast.analyzer",
    stop: Callable[[], bool] = lambda: False,
    beside: Sequence[int] = (),
) -> Run:
    """Run ``epochcast``, or a module of the workshop, in a folder; kill it (SIGKILL) once ``stop`` says so.

    Memory and processor time of the processes ``next to`` (a cluster's, by their ids) count as its own.
    """
    began, cpu_before = time.monotonic(), cpu_seconds(*beside)
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with (folder / "output").open("w") as output, (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=errors, env=environment)
        most, sampled = (0, 0, 0), 0.0
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            if stop():
                process.kill()
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


def handed_over(workers: Workers) -> tuple[float, float]:
    """Seconds passed, and of processors, that a batch takes with which there is nothing to do."""

    def all_of(count: int) -> None:
        batches = ([number] for number in range(count))
        for _ in worked_on(batches, list, workers, seconds_of=lambda _: 60.0, failed=lambda number, why: [number]):
            pass

    try:
        all_of(20)  # processes start
        began, cpu_before = time.monotonic(), cpu_seconds(os.getpid())
        all_of(BATCHES)
        return (time.monotonic() - began) / BATCHES, (cpu_seconds(os.getpid()) - cpu_before) / BATCHES
    finally:
        workers.close(at_once=True)


def overhead() -> Iterator[str]:
    """Yield what it takes to hand a batch to a worker, for each way."""
    taken = {f"local processes: {count}": handed_over(LocalProcesses(count)) for count in WORKERS}
    for count in WORKERS:
        with dask_cluster(count) as (address, _):
            taken[f"Dask workers: {count}"] = handed_over(DaskCluster(address))
    rows = [(name, f"{1000 * wall_s:.1f}", f"{1000 * cpu_s:.1f}") for name, (wall_s, cpu_s) in taken.items()]
    yield f"A batch (up to four traces) that is handed over, with nothing to do ({BATCHES} batches each):"
    yield ""
    yield from markdown_table(("", "ms passed", "ms of processors, all of them together"), rows)
    yield ""


class Fleet:
    """A simulated fleet in a folder, and its analyses next to it."""

    def __init__(self, base: Path, gpus: int, minutes: float, seed: int) -> None:
        self.base, self.gpus, self.hours, self.folder = base, gpus, gpus * minutes / 60, base / "fleet"
        size = ["--gpus", gpus, "--minutes", minutes, "--seed", seed, "--broken", 0.02, "--processes", 2]
        made = run_command(["--out", self.folder, *size, "--json"], base, module="lab.simulated_fleet")
        self.written = f"{made.cpu_s / gpus:.2f} processor seconds and {json.loads(made.output)['bytes'] / gpus / 1e6:.2f} MB"

    def analyse(self, name: str, *more: object, **watching: Any) -> Run:
        """Analyse all traces into the folder ``name``."""
        nodes, out = self.folder / "nodes.csv", self.base / name
        command = ["fleet", "analyze", self.folder / "traces", "--nodes", nodes, "--out", out, "--json", *more]
        done = run_command(command, self.base, **watching)
        if done.status > 0:
            raise SystemExit(f"the analysis ended with {done.status}: {(self.base / 'errors').read_text()}")
        return done

    def by_dask(self, workers: int) -> Run:
        """Analyse on a cluster."""
        with dask_cluster(workers) as (address, processes):
            return self.analyse(_by_dask(workers), "--scheduler", address, beside=processes)

    def killed_and_resumed(self) -> str:
        """Kill a run once half of the traces are kept, and start it again; what the second did, as a sentence."""

        def half() -> bool:
            try:
                with closing(sqlite3.connect(f"file:{self.base}/killed/findings.sqlite?mode=ro", uri=True)) as file:
                    return bool(file.execute("SELECT count(*) FROM results").fetchone()[0] >= self.gpus / 2)
            except sqlite3.OperationalError:  # it is not there yet
                return False

        self.analyse("killed", "--processes", 2, stop=half)
        again = json.loads(self.analyse("killed", "--processes", 2).output)["run"]
        return (
            "A run was killed (SIGKILL) in the middle. The next run reused "
            f"{again['taken_over']} of {self.gpus} traces and analysed {again['done']}."
        )

    def differences(self, name: str, other: str) -> list[str]:
        """Names of the tables that are not the same bytes; of `gpus`, but for the processor time, the same values."""
        found = []
        for table in TABLES:
            one, two = (self.base / each / f"{table}.parquet" for each in (name, other))
            if table == "gpus":
                same = pq.read_table(one).drop_columns("cpu_s").equals(pq.read_table(two).drop_columns("cpu_s"))
            else:
                same = one.read_bytes() == two.read_bytes()
            found += [] if same else [table]
        return found

    def looped(self) -> float:
        """Processor seconds of `epochcast detect` for each of a few traces that it answers, one process after the other."""
        traces = sorted((self.folder / "traces").rglob("*.parquet"))
        chosen = traces[:: max(1, len(traces) // LOOPED)][:LOOPED]
        runs = [run_command(["detect", path, "--json"], self.base) for path in chosen]
        return mean(run.cpu_s for run in runs if run.status == 0)

    def trace_cpu_s(self, name: str) -> float:
        """Processor seconds of a trace in its worker."""
        return float(pd.read_parquet(self.base / name / "gpus.parquet")["cpu_s"].mean())

    def beside_truth(self, name: str) -> Iterator[str]:
        """Yield what an analysis found next to what is true."""
        each = self.trace_cpu_s(name)
        yield f"{self.gpus} GPUs compared with the simulation's truth ({each:.2f} processor seconds per trace):"
        yield ""
        yield from compared(self.folder, self.base / name)
        yield ""


def _by_dask(workers: int) -> str:
    return f"Dask: scheduler, {workers} worker{'s' if workers > 1 else ''}"


def every_way(fleet: Fleet, minutes: float) -> Iterator[str]:
    """Yield what each way to analyse the fleet takes, and whether their tables are equal."""
    yield f"*Simulated*: {fleet.gpus} GPUs for {minutes:g} minutes each, 26 metrics at 10 Hz, on {os.cpu_count()} cores."
    yield "Other programs ran at the same time (see the load), so compare processor seconds, not seconds passed."
    yield ""
    first, two = "1 process", "2 processes"
    runs = {first: fleet.analyse(first, "--processes", 1), two: fleet.analyse(two, "--processes", 2)}
    runs |= {_by_dask(workers): fleet.by_dask(workers) for workers in WORKERS}
    rows = [(title, *(cell(run, fleet.gpus, fleet.hours) for run in runs.values())) for title, cell in ROWS.items()]
    yield from markdown_table(("", *runs), rows)
    yield ""
    each = fleet.trace_cpu_s(first)
    yield f"A trace takes {each:.2f} processor seconds in its worker, nearly all of it the search for epochs. {MANY} such"
    yield f"GPUs ({MANY * minutes / 60:.0f} GPU-hours), **extrapolated**: {MANY * each / 3600:.1f} core-hours in the workers."
    yield f"A plain loop over `epochcast detect`, a process for each trace: {fleet.looped():.1f} each."
    yield ""
    resumed = fleet.killed_and_resumed()
    for name in (*list(runs)[1:], "killed"):
        differ = ", ".join(fleet.differences(first, name)) or "none"
        yield f"- Tables of the run *{name}* that are not the same bytes as those of one process (`cpu_s` aside): {differ}."
    yield f"- {resumed}"
    yield f"- Writing such a fleet takes {fleet.written} per GPU (Parquet, zstd)."
    yield ""
    yield from overhead()
    yield from fleet.beside_truth(first)


def measured(sizes: Sequence[int], minutes: float, seed: int) -> Iterator[str]:
    """Yield the part: every way for the first size, what was found for the others."""
    for number, gpus in enumerate(sizes):
        with tempfile.TemporaryDirectory() as base:
            fleet = Fleet(Path(base), gpus, minutes, seed)
            if number == 0:
                yield from every_way(fleet, minutes)
            else:
                fleet.analyse("found", "--processes", 2)
                yield from fleet.beside_truth("found")


def main() -> None:
    """Measure; print or write the part."""
    parser = options(__doc__)
    parser.add_argument("--gpus", type=int, nargs="+", default=[64, 192])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    publish(FLEET, "fleet", measured(arguments.gpus, arguments.minutes, arguments.seed), write=arguments.write)


if __name__ == "__main__":
    main()
