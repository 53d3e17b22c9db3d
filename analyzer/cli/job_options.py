"""Options about a job that several commands have: sizes of a step, growth of the batch, precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ...regressor.precision import PRECISIONS
from ..errors import InputError

Command = TypeVar("Command", bound=Callable[..., Any])

batch_may_grow_option = click.option(
    "--batch-may-grow",
    is_flag=True,
    help="Let the batch grow with a GPU's memory (assumes no more epochs are needed). [default: it stays the same]",
)


def per_step(command: Command) -> Command:
    """Add both options, as ``samples_per_step`` and ``tokens_per_step``."""
    for what, example in (("tokens", "524288"), ("samples", "256")):
        command = click.option(
            f"--{what}-per-step",
            type=float,
            metavar="N",
            callback=_checked,
            help=f"{what.title()} in one step of the whole job, e.g. {example}; adds {what}/s.",
        )(command)
    return command


def _checked(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        what = option.opts[0].split("-")[2]
        raise InputError(f"{option.opts[0]} is {value:g}; give the number of {what} in a step of the whole job, above 0")
    return value


def precision_option(of: str) -> Callable[[Command], Command]:
    """Add the option, as ``precision``; ``of`` says in its help whose precision it is."""
    return click.option(
        "--precision",
        type=click.Choice(PRECISIONS),
        help=f"Precision of {of}; tf32: FP32 code, fp32: FP32 with TF32 off. [default: what the telemetry shows, else unknown]",
    )
