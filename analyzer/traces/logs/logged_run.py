"""What a tool that logs trainings kept of a run: telemetry, if any, and the times at which it counted epochs or steps."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from epochcast.analyzer.traces.table import DeviceTable
from epochcast.detector import Kind
from epochcast.regressor.job_types import NETWORK_KEYS

Rows = Sequence[tuple[float, float]]
"""(unix s, value) of each row or line that says a value, in the order of time."""

STEPS = "_step"
"""The key of the history under which each row's own step is."""


@dataclass(frozen=True)
class KnownEpochs:
    """Epochs that somebody or something knows, or what the cycles that the telemetry shows are.

    Attributes:
        origin: where they come from, in a few words; of a run itself: ``its history``, ``its steps`` or ``its output``.
        seconds: of one; 0 where only ``kind`` is known.
        spans: start and end of each [unix s]; empty where only their length is known. A history row may be written at an
            epoch's end as well as at its start, so lengths are right and phases may be shifted.
        kind: of the cycle that is found.
    """

    origin: str
    seconds: float
    spans: tuple[tuple[float, float], ...] = ()
    kind: Kind = "epoch"

    @classmethod
    def of_spans(cls, origin: str, spans: Sequence[tuple[float, float]]) -> Self:
        """Epochs of these spans [unix s], of which there is one."""
        return cls(origin, float(np.median([end - start for start, end in spans])), tuple(spans))


@dataclass(frozen=True)
class LoggedRun:
    """One run.

    Attributes:
        history: rows of each key that counts epochs or steps.
        tables: of each GPU of the machine that did not idle throughout; of the process where there is no GPU.
        config: what the script gave as its configuration.
        output: the printed lines that name an epoch.
    """

    history: Mapping[str, Rows]
    tables: Sequence[DeviceTable] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    output: Rows = ()

    @property
    def network(self) -> str | None:
        """The name of its network, where its configuration has one."""
        return next((self.config[key] for key in NETWORK_KEYS if isinstance(self.config.get(key), str)), None)

    def epochs(self) -> KnownEpochs | None:
        """At least two epochs, as the first that has them says: the history's epochs, its steps, printed lines; else None."""
        steps = self.config.get("steps_per_epoch")
        counted = next((rows for key, rows in self.history.items() if last_part(key) == "global_step"), None)
        sources = [("its history", rows) for key, rows in sorted(self.history.items()) if last_part(key) == "epoch"]
        if isinstance(steps, int | float) and steps > 0:
            rows = counted or self.history.get(STEPS, ())
            sources.append(("its steps", [(time, value / steps) for time, value in rows]))
        for origin, rows in [*sources, ("its output", self.output)]:
            if len(spans := epochs_of(rows)) >= 2:
                return KnownEpochs.of_spans(origin, spans)
        return None


def epochs_of(rows: Rows) -> list[tuple[float, float]]:
    """The spans [unix s] between rows that count epochs."""
    times = _crossings(rows)
    return [(times[n], times[n + 1]) for n in times if times.get(n + 1, -math.inf) > times[n]]


def last_part(key: str) -> str:
    """``epoch`` of ``train/Epoch``."""
    return re.split(r"[/.]", key)[-1].lower()


def _crossings(rows: Rows) -> dict[int, float]:
    """When each whole number was first reached [unix s]: between the rows around it, in proportion.

    Numbers that a jump passes over have no time, and once the values fall back (another fold) nothing counts any more.
    """
    crossings: dict[int, float] = {}
    if not rows:
        return crossings
    last_time, last = rows[0]
    if last.is_integer():
        crossings[int(last)] = last_time
    for time, value in rows:
        if value < last - 1:
            break
        if value <= last:
            last_time = time if value == last else last_time  # the latest row before the next number is the nearest to it
            continue
        number = math.floor(value)
        if value - last <= 1 and number > math.floor(last):
            crossings[number] = last_time + (number - last) / (value - last) * (time - last_time)
        elif value.is_integer():
            crossings[number] = time
        last_time, last = time, value
    return crossings
