"""Options that several commands have, each with one name and one meaning."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from epochcast.analyzer.cli.quantities import Duration

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


def known_epochs_options(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options by which the user says what the epochs are; the command gets them as its argument ``name``."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--epoch-time", type=Duration("seconds"), help="How long an epoch takes, if you know: seconds, or 7m.")
        @click.option(
            "--epochs-from",
            metavar="FILE",
            help="What marks the epochs: a wandb run, TensorBoard's events, a CSV of start times, or a training log.",
        )
        @click.option("--epochs-pattern", metavar="REGEX", help="What marks an epoch in the training log of --epochs-from.")
        @click.option(
            "--cycle",
            type=click.Choice(["checkpoint", "evaluation", "epoch", "step"]),
            help="What the cycle is that the telemetry shows, if you know.",
        )
        @wraps(command)
        def known(
            *, epoch_time: float | None, epochs_from: str | None, epochs_pattern: str | None, cycle: Any, **given: Any
        ) -> Any:
            from epochcast.analyzer.traces.known_epochs import known_epochs

            return command(**given, **{name: known_epochs(epoch_time, epochs_from, epochs_pattern, cycle)})

        return known

    return add
