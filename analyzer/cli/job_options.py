"""``--samples-per-step`` and ``--tokens-per-step``, the same for every command that has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..errors import InputError

Command = TypeVar("Command", bound=Callable[..., Any])


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
