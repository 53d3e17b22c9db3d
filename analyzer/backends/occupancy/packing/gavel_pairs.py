"""Measured throughput of co-located pairs of training jobs, from the Gavel project (K80 and P100).

The table holds no occupancy and no utilisation: it serves to measure rules that predict interference from what is known of
either job, and packing by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ....errors import InputError
from .table_file import Column, read_table

_NAMES = ("gpu", "job_a", "job_b")
_COLUMNS = (
    Column("sf_a", least=1.0),
    Column("sf_b", least=1.0),
    *(Column(f"{kind}_{side}", least=0.0) for kind in ("iso", "co") for side in ("a", "b")),
)


@dataclass(frozen=True)
class GavelPairs:
    """What was measured on one GPU.

    Attributes:
        gpu: its name.
        views: two rows for each pair that ran, one from either job's view (one for a job beside itself): ``job``, ``other``
            (types: model and batch size), ``model``, ``other_model``, ``alone``, ``other_alone`` (steps per second) and
            ``slowdown`` (alone over co-located throughput, above 1).
        types: types that run alone.
        left_out: rows of the file that are not among the views, by reason.
    """

    gpu: str
    views: pd.DataFrame
    types: tuple[str, ...]
    left_out: Mapping[str, int]


def read_gavel_pairs(path: str | Path) -> list[GavelPairs]:
    """Pairs of one GPU each, by GPU.

    Left out are exact repetitions, jobs of several GPUs (in this table none of them ran), pairs of which a job does not run
    alone, pairs that did not run (throughput 0: mostly too large for the memory together), and jobs that are exactly as fast
    as alone (a value that was filled in, not measured).

    Raises:
        InputError: the file is no such table, or no pair in it ran.
    """
    table = read_table(path, _COLUMNS, names=_NAMES)
    found = []
    for gpu, rows in table.groupby("gpu"):
        repeated = rows.duplicated()
        several = (rows["sf_a"] > 1) | (rows["sf_b"] > 1)
        not_alone = (rows["iso_a"] == 0) | (rows["iso_b"] == 0)
        not_together = (rows["co_a"] == 0) | (rows["co_b"] == 0)
        as_alone = (rows["co_a"] == rows["iso_a"]) | (rows["co_b"] == rows["iso_b"])
        reasons = {
            "repeated": repeated,
            "of several GPUs": several,
            "with a job that does not run alone": not_alone,
            "that did not run together": not_together,
            "exactly as fast as alone": as_alone,
        }
        kept, left_out = np.ones(len(rows), dtype=bool), {}
        for reason, mask in reasons.items():
            left_out[reason] = int((kept & mask).sum())
            kept &= ~mask.to_numpy()
        if not kept.any():
            raise InputError(f"no pair of {str(path)!r} ran on {gpu}; give a table of measured pairs")
        alone = rows[~not_alone & ~several]
        found.append(GavelPairs(str(gpu), _views(rows[kept]), tuple(sorted(alone["job_a"].unique())), left_out))
    return found


def _views(rows: pd.DataFrame) -> pd.DataFrame:
    """Either job's view of each pair, once: the file has pairs in both orders, some of them in one alone."""
    sides = [
        pd.DataFrame(
            {
                "job": rows[f"job_{own}"],
                "other": rows[f"job_{other}"],
                "alone": rows[f"iso_{own}"],
                "other_alone": rows[f"iso_{other}"],
                "slowdown": rows[f"iso_{own}"] / rows[f"co_{own}"],
            }
        )
        for own, other in (("a", "b"), ("b", "a"))
    ]
    views = pd.concat(sides).drop_duplicates(["job", "other"]).sort_values(["job", "other"], ignore_index=True)
    return views.assign(model=_model(views["job"]), other_model=_model(views["other"]))


def _model(types: pd.Series[str]) -> pd.Series[str]:
    """``ResNet-18 (batch size 32)`` is a ``ResNet-18``."""
    return types.str.replace(r" \(.*", "", regex=True)
