"""How long commands take from start to end, in fresh processes with a warm disk cache, beside Python itself and pandas.

    python -m benchmarks.cold_start [--rounds 20] [--no-docs]

Each round runs every command once, so that what else the machine does falls on all of them alike. Wall time is what a user
waits on this machine as busy as it is; CPU time (user and system, of the process and its children) depends less on the others.
The traces are simulated: 10 minutes of a Tesla T4 at 10 Hz, 20 metrics. Writes the table into docs/measurements.md.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import pandas as pd

from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.detector.simulator import simulate

from .page import Page, markdown_table

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
    """The command as a program beside this Python and its arguments."""
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


def main() -> None:
    """Measure, print the table, and put it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--no-docs", action="store_true", help="leave docs/measurements.md as it is")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_traces(folder)
        for command in COMMANDS:  # the disk cache is warm and the bytecode written
            timed(argv_of(command), folder)
        took: dict[str, list[tuple[float, float]]] = {command: [] for command in COMMANDS}
        for _ in range(options.rounds):
            for command in COMMANDS:
                took[command].append(timed(argv_of(command), folder))
    rows = []
    for command, times in took.items():
        wall, used = ([each[k] for each in times] for k in (0, 1))
        must = f"{MUST_S[command]:g}" if command in MUST_S else ""
        rows.append(
            (
                f"`{command}`",
                must,
                *(f"{seconds:.2f}" for seconds in (min(wall), median(wall), max(wall), min(used), median(used))),
            )
        )
    header = ("", "must", "wall s, best", "median", "worst", "CPU s, best", "median")
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    lines = [
        *markdown_table(header, rows),
        "",
        f"n = {options.rounds} of each, {os.cpu_count()} cores, load average {load} at the end.",
    ]
    print("\n".join(lines))
    if not options.no_docs:
        Page("measurements").fill("cold_start", lines)


if __name__ == "__main__":
    main()
