"""The slowdown of co-located pairs as measured on a GPU of our own: ``colocation.csv`` of ``occupancy_bench.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....csv_text import parse_csv, read_text
from ....errors import InputError
from .job import Job

FEWEST_PAIRS = 10

_SIDES = ("a", "b")
_PERCENT = 100.0


def read_colocation(path: str | Path) -> pd.DataFrame:
    """Two rows for each pair that ran, one from either job's view.

    Columns: ``job``, ``other`` (keys), ``occupancy``, ``other_occupancy`` (``mean_grid``, 0..1), ``nvml_utilisation``,
    ``other_nvml_utilisation`` (alone, 0..1; NaN where there was no reading) and ``slowdown`` (ratio of steps per second).

    Raises:
        InputError: the file is no such table, or fewer than 10 pairs in it ran.
    """
    if not Path(path).is_file():
        raise InputError(f"there is no file {str(path)!r}; give a table of jobs measured side by side")
    table = parse_csv(read_text(path), str(path), as_text=("key_a", "key_b", "status"))
    columns = {
        "job": "key_{}",
        "occupancy": "mean_grid_{}",
        "slowdown": "rate_slowdown_{}",
        "nvml_utilisation": "nvml_util_alone_{}",
    }
    needed = ["status", *(column.format(side) for column in columns.values() for side in _SIDES)]
    if missing := [name for name in needed if name not in table]:
        raise InputError(
            f"{str(path)!r} lacks the column {missing[0]!r}; a table of jobs measured side by side has {', '.join(needed)}"
        )
    table = table[table["status"] == "ok"]
    own = [table[[column.format(side) for column in columns.values()]].set_axis(list(columns), axis=1) for side in _SIDES]
    views = [
        one.join(other[["job", "occupancy", "nvml_utilisation"]].add_prefix("other_"))
        for one, other in (own, tuple(reversed(own)))
    ]
    views = [
        view.rename(columns={"other_job": "other"}).assign(
            **{
                name: pd.to_numeric(view[name], errors="coerce") / scale
                for name, scale in (
                    ("slowdown", 1.0),
                    ("occupancy", _PERCENT),
                    ("other_occupancy", _PERCENT),
                    ("nvml_utilisation", _PERCENT),
                    ("other_nvml_utilisation", _PERCENT),
                )
            }
        )
        for view in views
    ]
    usable = np.logical_and.reduce([view[["slowdown", "occupancy", "other_occupancy"]].notna().all(axis=1) for view in views])
    if usable.sum() < FEWEST_PAIRS:
        raise InputError(f"{usable.sum()} pairs of {str(path)!r} ran; a curve takes {FEWEST_PAIRS}: record more")
    return pd.concat([view[usable] for view in views], ignore_index=True)


@dataclass(frozen=True, eq=False)
class MeasuredSlowdown:
    """Slowdown by cumulative occupancy of a pair: the best curve that never falls (isotonic regression) through what was
    measured, flat beyond its ends, never below 1.

    Of more than two jobs, each is slowed down by what every other one alone adds: 1 + sum of (pair's slowdown - 1). For jobs
    that take turns this gives the number of jobs, as it must; whether it holds for others nobody measured.
    """

    cumulative: NDArray[np.float64]
    slowdown: NDArray[np.float64]

    @classmethod
    def fit(cls, pairs: pd.DataFrame) -> MeasuredSlowdown:
        """From the rows of :func:`read_colocation`."""
        from sklearn.isotonic import IsotonicRegression

        fitted = IsotonicRegression(y_min=1.0).fit(pairs["occupancy"] + pairs["other_occupancy"], pairs["slowdown"])
        return cls(np.asarray(fitted.X_thresholds_, dtype=float), np.asarray(fitted.y_thresholds_, dtype=float))

    def of_pair(self, cumulative: float) -> float:
        """Slowdown of each of two jobs with this cumulative occupancy."""
        return float(np.interp(cumulative, self.cumulative, self.slowdown))

    def __call__(self, jobs: Sequence[Job]) -> Sequence[float]:
        """Slowdown of each of the jobs on one GPU."""
        return [
            1.0 + sum(self.of_pair(one.occupancy + other.occupancy) - 1.0 for other in [*jobs[:place], *jobs[place + 1 :]])
            for place, one in enumerate(jobs)
        ]
