"""Options that several commands have, each with one name and one meaning."""

from __future__ import annotations

from pathlib import Path

import click

_PATH = click.Path(path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
gpus_option = click.option("--gpus", type=_PATH, metavar="FILE", help="TOML file with GPUs of your own.")
recorded_gpu_option = click.option("--gpu", metavar="NAME", help="GPU it was recorded on, if the trace does not name it.")
regressor_option = click.option("--model", type=_PATH, metavar="DIR", help="Model folder written by `epochcast fit regressor`.")

# Of what is ranked: recommend and fleet analyze, and what predicts costs.
prices_option = click.option(
    "--prices", type=_PATH, metavar="FILE", help="Your own price table (CSV) instead of the built-in one."
)
objective_option = click.option(
    "--objective", type=click.Choice(["cost", "time"]), default="cost", show_default=True, help="Rank by cost or by time."
)
spot_option = click.option("--spot", is_flag=True, help="Pay spot prices; instances without one are left out.")
cloud_option = click.option(
    "--cloud", "clouds", multiple=True, metavar="NAME", help="Rank only instances of this cloud (repeatable)."
)
region_option = click.option(
    "--region", "regions", multiple=True, metavar="NAME", help="Rank only instances in this region (repeatable)."
)
