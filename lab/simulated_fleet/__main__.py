"""``python -m lab.simulated_fleet``: a simulated fleet with the true answers, to try the analysis and to measure it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from epochcast.analyzer import cli
from epochcast.analyzer.cli import progress, terminal
from epochcast.analyzer.cli.quantities import Duration
from epochcast.analyzer.words import count, number
from lab.simulated_fleet import FleetSettings, write_fleet


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="New folder to write to.")
@click.option("--gpus", type=int, metavar="N", default=64, show_default=True, help="Number of GPUs, 8 per node.")
@click.option(
    "--minutes",
    type=Duration("minutes"),
    default=10.0,
    help="Length of the telemetry, at 10 rows a second: minutes, or 1h. [default: 10]",
)
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Seed; each seed gives a different fleet.")
@click.option(
    "--broken", type=float, default=0.0, metavar="SHARE", help="Share of traces that cannot be read, 0 to 1. [default: 0]"
)
@click.option(
    "--processes", type=click.IntRange(min=1), metavar="N", default=1, show_default=True, help="Number of worker processes."
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def simulate(out: Path, gpus: int, minutes: float, seed: int, broken: float, processes: int, as_json: bool) -> int:
    """Write the telemetry of a simulated fleet, with the true answers.

    DIR/traces/NODE/GPU.parquet are the traces (26 metrics, 10 Hz, marked as simulated), each with its true epochs in GPU.json.
    DIR/nodes.csv has the rented instances; DIR/truth.parquet has the jobs, stragglers and idle time of every GPU. Ten minutes
    of one GPU take about 0.4 MB.

    \b
    Example: python -m lab.simulated_fleet --out fleet --gpus 64 --minutes 10
             epochcast fleet analyze fleet/traces --nodes fleet/nodes.csv \\
                 --out findings
    """
    settings = FleetSettings(gpus, minutes, seed, broken)
    try:
        made = write_fleet(
            out,
            settings,
            processes=processes,
            progress=lambda done, of: progress.show(f"{done} of {of} simulated GPUs written"),
        )
    finally:
        progress.clear()
    if as_json:
        click.echo(json.dumps({"simulated": True, "out": str(out), **asdict(made)}, indent=2))
    else:
        works = ", ".join(f"{gpus} {work}" for work, gpus in sorted(made.works.items(), key=lambda entry: -entry[1]))
        where = f"{count(made.gpus, 'simulated GPU')} in {count(made.nodes, 'node')} ({works})"
        terminal.say(f"{where} with {count(made.jobs, 'job')}, {number(made.bytes / 1e6)} MB: {out}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; bad input is one sentence on stderr and exit code 2."""
    return cli.main(arguments, simulate, "python -m lab.simulated_fleet")


if __name__ == "__main__":
    sys.exit(main())
