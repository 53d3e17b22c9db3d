"""True epoch marks beside a trace: ``NAME.json`` with ``epoch_starts``, ``epoch_ends`` (same clock as ``time``), ``training``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .errors import InputError


@dataclass(frozen=True)
class Labels:
    """True epochs of one trace [unix s]; ``training`` is false for a trace that holds no epochs at all."""

    epoch_starts: tuple[float, ...]
    epoch_ends: tuple[float, ...]
    training: bool
    cls: str | None = None

    @property
    def period_s(self) -> float | None:
        """True period: the median difference of the epoch starts [s]; the one epoch's length if there is only one."""
        if len(self.epoch_starts) > 1:
            return float(np.median(np.diff(self.epoch_starts)))
        return self.epoch_ends[0] - self.epoch_starts[0] if self.epoch_starts else None


def read_labels(path: str | Path) -> Labels:
    """Read a label file; InputError with one sentence if it is missing, not JSON, or its marks do not pair up."""
    path = Path(path)
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no label file {str(path)!r} beside the trace") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{str(path)!r} is not a readable label file: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{str(path)!r} is a JSON {type(content).__name__}, not an object with epoch_starts and epoch_ends")
    starts, ends = _marks(content, "epoch_starts", path), _marks(content, "epoch_ends", path)
    if len(starts) != len(ends) or any(end <= start for start, end in zip(starts, ends, strict=True)):
        raise InputError(f"{str(path)!r}: {len(starts)} epoch_starts and {len(ends)} epoch_ends do not pair up as start < end")
    training = bool(content.get("training", True))
    if training and not starts:
        raise InputError(f"{str(path)!r} says training but has no epoch_starts")
    return Labels(starts, ends, training, content.get("cls"))


def _marks(content: dict[str, Any], key: str, path: Path) -> tuple[float, ...]:
    marks = content.get(key, [])
    if not isinstance(marks, list) or not all(isinstance(mark, int | float) for mark in marks):
        raise InputError(f"{str(path)!r}: {key} must be a list of unix times, not {marks!r:.60}")
    return tuple(float(mark) for mark in marks)
