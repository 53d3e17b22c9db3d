"""Write the telemetry of a simulated fleet, with the true answers.

DIR/traces/NODE/GPU.parquet are the traces (26 metrics, 10 Hz, marked as simulated), each with its true epochs in GPU.json.
DIR/nodes.csv has the rented instances; DIR/truth.parquet has the jobs, stragglers and idle time of every GPU. Ten minutes
of one GPU take about 0.4 MB.

python -m lab.simulated_fleet --out fleet --gpus 64 --minutes 10
epochcast fleet analyze fleet/traces --nodes fleet/nodes.csv --out findings
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epochcast.analyzer.cli import progress
from lab.commands import run_study
from lab.simulated_fleet import FleetSettings, write_fleet


def options(parser: argparse.ArgumentParser) -> None:
    """What to simulate."""
    parser.add_argument("--out", type=Path, required=True, help="new folder to write to")
    parser.add_argument("--gpus", type=int, default=64, help="8 per node")
    parser.add_argument("--minutes", type=float, default=10.0, help="of telemetry, at 10 rows a second")
    parser.add_argument("--seed", type=int, default=0, help="each seed gives a different fleet")
    parser.add_argument("--broken", type=float, default=0.0, help="share of traces that cannot be read, 0 to 1")
    parser.add_argument("--processes", type=int, default=1)


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """Write it."""
    settings = FleetSettings(asked.gpus, asked.minutes, asked.seed, asked.broken)
    tell = lambda done, of: progress.show(f"{done} of {of} simulated GPUs written")  # noqa: E731
    made = write_fleet(asked.out, settings, processes=asked.processes, progress=tell)
    return {"simulated": True, "out": str(asked.out), **made}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; its exit code."""
    return run_study("lab.simulated_fleet", __doc__, options, study, arguments)


if __name__ == "__main__":
    sys.exit(main())
