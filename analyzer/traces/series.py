"""Series with labels, as Prometheus and what speaks like it hand them out, and a GPU's put side by side in one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.traces.columns import Meaning, Part
from epochcast.dcgm_names import ONCE_PERCENT, PERCENT


class Series(NamedTuple):
    """Raw samples of one series: its labels, ``time`` (n,) unix seconds ascending, ``values`` (n,)."""

    labels: Mapping[str, str]
    time: NDArray[np.float64]
    values: NDArray[np.float64]


Array = NDArray[np.float64]

#: Best first: the exact mean since the scrape before, the mean over the agent's last window, one tick.
_BEST: tuple[Part, ...] = ("integral", "window", "last")
#: After a pause of so many scrapes the mean since the last one is of the pause.
LONGEST_STEP = 3.0


def table(series: Sequence[Series], meanings: Mapping[str, Meaning], *, exact: bool) -> tuple[Array, dict[str, Array]]:
    """Put the samples of a GPU's series side by side.

    Args:
        series: of one GPU; two of one name (a label of theirs changed) follow each other in time, and so do two of one column
            where dcgm-exporter was upgraded.
        meanings: what each name holds.
        exact: whether integrals run as fast as the clock; a replay's do not.

    Returns:
        ``time`` (n,) unix seconds, ascending, and column -> (n,) base units, NaN where there is no sample.
    """
    known = [(meanings[stored.labels["__name__"]], stored) for stored in series if stored.labels.get("__name__") in meanings]
    time: Array = np.unique(np.concatenate([stored.time for _, stored in known])) if known else np.empty(0)
    parts: dict[tuple[str, Part], Array] = {}
    for meaning, stored in known:
        column = parts.setdefault((meaning.column, meaning.part), np.full(time.size, np.nan))
        values = np.where(stored.values < meaning.blank, stored.values, np.nan)
        percent = stored.labels["__name__"] == ONCE_PERCENT and (values > 1.0).any()
        at = np.searchsorted(time, stored.time)
        column[at] = np.where(np.isnan(values), column[at], values * (PERCENT if percent else meaning.factor))
    columns: dict[str, Array] = {}
    for name in dict.fromkeys(name for name, _ in parts):
        best = np.full(time.size, np.nan)
        for part in _BEST:
            if (name, part) in parts and (part != "integral" or exact):
                values = _means(time, parts[name, part]) if part == "integral" else parts[name, part]
                best = np.where(np.isnan(best), values, best)
        columns[name] = best
    return time, columns


def _means(time: Array, integral: Array) -> Array:
    """The mean of a ratio since the sample before, NaN where the integral started again or there was a pause."""
    there = np.flatnonzero(~np.isnan(integral))
    means = np.full(time.size, np.nan)
    if there.size > 1:
        steps, grown = np.diff(time[there]), np.diff(integral[there])
        usable = (grown >= 0) & (steps <= LONGEST_STEP * np.median(steps))
        means[there[1:][usable]] = np.minimum(grown[usable] / steps[usable], 1.0)
    return means
