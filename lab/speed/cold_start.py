"""How long commands take from start to end, in fresh processes with a warm disk cache, next to Python itself and pandas.

    python -m lab.speed.cold_start [--rounds 20] [--write]

Each round runs every command once, so that what else the machine does falls on all of them alike. Wall time is what a user
waits on this machine as busy as it is; CPU time (user and system, of the process and its children) depends less on the others.
The traces are simulated: 10 minutes of a Tesla T4 at 10 Hz, 20 metrics.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pandas as pd

from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.simulator import simulate
from lab.speed.page import MEASUREMENTS, markdown_table, options, publish
from lab.speed.processes import machine

SAMPLES = 6000
WAIT_S = 120.0
MUST_S = {"epochcast --help": 0.3, "epochcast detect run.parquet": 1.5, "epochcast detect run.csv": 1.5}
COMMANDS = (
    "python -c pass",
    'python -c "import pandas"',
    *MUST_S,
    "epochcast profile run.parquet",
    "epochcast predict run.parquet",
    "epochcast recommend run.parquet",
    "epochcast predict-model --help",
    "epochcast gpus",
    "epochcast prices list",
    "epochcast record --out one.parquet -- sleep 1",
    "epochcast serve --help",
    "epochcast-agent --help",
)


def write_traces(folder: Path) -> None:
    """Write the first 10 minutes of one simulated job as ``run.parquet`` and ``run.csv``."""
    job = simulate(seed=1, epochs=30)
    frame = pd.DataFrame({"time": job.time, **job.metrics}).iloc[:SAMPLES]
    for suffix in ("parquet", "csv"):
        write_trace(Trace(frame, gpu=job.gpu, source="simulated", simulated=True), folder / f"run.{suffix}")


def argv_of(command: str) -> list[str]:
    """The command as a program next to this Python and its arguments."""
    program, *rest = command.split(" ", 2) if command.startswith("python") else command.split()
    return [str(Path(sys.executable).parent / program), *(argument.strip('"') for argument in rest)]


def timed(argv: list[str], folder: Path) -> tuple[float, float]:
    """Run to the end and return seconds of wall and of CPU time; RuntimeError if it fails."""
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=WAIT_S, check=False)
    wall, after = time.perf_counter() - began, os.times()
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended with status {done.returncode}: {done.stderr.strip()}")
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return wall, used


def measured(rounds: int) -> Iterator[str]:
    """Yield the table."""
    took: dict[str, list[tuple[float, float]]] = {command: [] for command in COMMANDS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_traces(folder)
        for command in COMMANDS:  # the disk cache is warm and the bytecode written
            timed(argv_of(command), folder)
        for _ in range(rounds):
            for command in COMMANDS:
                took[command].append(timed(argv_of(command), folder))
    rows = []
    for command, times in took.items():
        wall, used = zip(*times, strict=True)
        seconds = (min(wall), median(wall), max(wall), min(used), median(used))
        rows.append((f"`{command}`", str(MUST_S.get(command, "")), *(f"{each:.2f}" for each in seconds)))
    yield from markdown_table(("", "must", "wall s, best", "median", "worst", "CPU s, best", "median"), rows)
    yield ""
    yield f"n = {rounds} of each, {machine()} at the end."


def main() -> None:
    """Measure; print or write the table."""
    parser = options(__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    publish(MEASUREMENTS, "cold_start", measured(arguments.rounds), write=arguments.write)


if __name__ == "__main__":
    main()
