"""What `evaluate` measures on: one table that a protocol splits, or one to fit on and another to test on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError


def check_data_or_split(data: Sequence[Path], train: Sequence[Path], test: Sequence[Path], protocol: str | None) -> None:
    """Raise InputError unless exactly one of both is given, and a protocol only where there is something to split."""
    if bool(data) == bool(train) or bool(train) != bool(test):
        raise InputError("give either --data CSV or both --train CSV and --test CSV")
    if train and protocol is not None:
        raise InputError("--protocol splits one table; with --train and --test leave it out")
