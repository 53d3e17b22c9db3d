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
prices_option = click.option(
    "--prices", type=_PATH, metavar="FILE", help="Your own price table (CSV) instead of the built-in one."
)
epochs_from_option = click.option(
    "--epochs-from",
    metavar="FILE",
    help="What marks the epochs: a wandb run, TensorBoard's events, a CSV of start times, or a training log.",
)


def known_epochs_options(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options by which the user says what the epochs are; the command gets them as its argument ``name``."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--epoch-time", type=Duration("seconds"), help="How long an epoch takes, if you know: seconds, or 7m.")
        @epochs_from_option
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
