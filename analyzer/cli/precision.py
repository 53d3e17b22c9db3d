"""``--precision``, the same for every command that has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ...regressor.precision import PRECISIONS

Command = TypeVar("Command", bound=Callable[..., Any])


def precision_option(of: str) -> Callable[[Command], Command]:
    """Add the option, as ``precision``; ``of`` says in its help whose precision it is."""
    return click.option(
        "--precision",
        type=click.Choice(PRECISIONS),
        help=f"Precision of {of}; tf32: FP32 code, fp32: FP32 with TF32 off. [default: what the telemetry shows, else unknown]",
    )
