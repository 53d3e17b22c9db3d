"""``epochcast gpus``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.shared_options import gpus_option
from epochcast.analyzer.tables import table
from epochcast.analyzer.words import number
from epochcast.regressor import load_catalog

_HEADER = ("gpu", "compute", "SMs", "FP32 TFLOP/s", "memory GiB", "GB/s", "W", "unverified", "also")


@click.command()
@gpus_option
@click.option("--json", "as_json", is_flag=True, help="Print every figure as JSON, in base units.")
def gpus(gpus: Path | None, as_json: bool) -> int:
    """List the GPUs that Epochcast can predict for, and their other names.

    \b
    Example: epochcast gpus --gpus my-gpus.toml
    """
    catalog = load_catalog(gpus)
    if as_json:
        click.echo(json.dumps({"gpus": [asdict(gpu) for gpu in catalog.values()]}, indent=2))
        return 0
    rows = [
        (
            gpu.name,
            f"{gpu.compute_capability:.1f}" if gpu.vendor == "NVIDIA" else gpu.vendor,
            f"{gpu.sm_count}",
            number(2 * gpu.cuda_cores * gpu.boost_clock / 1e12),
            f"{gpu.memory / 2**30:.0f}",
            f"{gpu.memory_bandwidth / 1e9:.0f}",
            f"{gpu.tdp:.0f}",
            f"{len(gpu.unverified)} figures" if gpu.unverified else "",
            ", ".join(gpu.aliases),
        )
        for gpu in catalog.values()
    ]
    terminal.say(table(_HEADER, rows))
    if any(gpu.unverified for gpu in catalog.values()):
        terminal.say("unverified: no public source confirms these figures (--json lists them); answers that use one say so")
    return 0
