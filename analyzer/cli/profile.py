"""``epochcast profile``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.shared_options import epochs_from_option, gpus_option, recorded_gpu_option
from epochcast.analyzer.jobs.sources import read_source
from epochcast.analyzer.traces.known_epochs import known_epochs
from epochcast.regressor import load_catalog
from epochcast.regressor.profile_json import profile_json


@click.command()
@click.argument("trace")
@recorded_gpu_option
@gpus_option
@epochs_from_option
@click.option("--workload", metavar="NAME", help="Name of the workload, the same on every GPU it ran on.")
@click.option("--group", metavar="NAME", help="Family of the workload, such as a model architecture.")
def profile(
    trace: str, gpu: str | None, gpus: Path | None, workload: str | None, group: str | None, epochs_from: str | None
) -> int:
    """Summarise a trace (Parquet or CSV; - reads CSV from standard input) into the profile that predictions start from.

    The profile (JSON) has statistics of every GPU metric over the detected epochs, without the first epoch and stalls.

    \b
    Example: epochcast profile run.parquet --workload "resnet50|64|224" \\
                 --group resnet50 > run.json
             epochcast profile wandb/latest-run --workload gpt2 > run.json
    """
    source = read_source(trace, load_catalog(gpus), gpu, known_epochs(None, epochs_from))
    named = {key: value for key, value in (("workload", workload), ("group", group)) if value is not None}
    for note in source.notes:
        terminal.note(note)
    click.echo(json.dumps(profile_json(replace(source.profile, **named)), indent=2))  # type: ignore[arg-type]
    return 0
