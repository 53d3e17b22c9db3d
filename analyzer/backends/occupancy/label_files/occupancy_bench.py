"""``occupancy.csv`` and ``sweep.csv`` of the project's GPU measurements (``occupancy_bench.py``).

Which GPU it was stands in ``meta.json`` beside the file. Where ``kernels.csv.gz`` lies there too, the labels are calculated
anew from its launches, so that one calculation makes the labels of all files.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from .....regressor import Catalog, Gpu
from ....csv_text import numeric_column
from ....errors import InputError
from .. import kernel_files
from ..kernel_files.profile_occupancy import occupancy_rows
from ..launch.kernel_table import summarise
from ..points import TARGETS
from .reading import Reading

NAME = "occupancy.csv or sweep.csv of occupancy_bench.py"

KERNELS = "kernels.csv.gz"
_LABELS = dict(zip(TARGETS, ("mean_grid", "timemean_grid", "max_grid"), strict=True))
_NAMES = {"model": "network", "image": "image_size", "seq": "sequence"}
_REASONS = {"oom": "out of memory", "error": "the network failed", "ok": "no kernel was recorded"}
_MEBIBYTE = 2**20
_NOTABLE = 0.005  # of occupancy; the file's figures are rounded to 1e-6


def recognises(table: pd.DataFrame) -> bool:
    """Whether it has the columns of either file."""
    return {"key", *_NAMES, "status", "kernels", *_LABELS.values(), "iter_ms", "nvml_util", "peak_mib"} <= set(table.columns)


def read(table: pd.DataFrame, path: Path, catalog: Catalog, gpu: Gpu | None) -> Reading:
    """The rows that were measured, with their ``key``; the others, such as those that ran out of memory, are counted.

    The labels are those of ``grid``, the mean over all SMs. ``memory_bytes`` includes the weights of other networks that the
    same process kept on the device.

    Raises:
        InputError: nothing was measured, or the GPU is not told or not known.
    """
    name = str(path)
    measured = table["status"].eq("ok") & pd.to_numeric(table["kernels"], errors="coerce").gt(0)
    left_out = Counter(_REASONS.get(str(status), f"status {status!r}") for status in table["status"][~measured])
    if not measured.any():
        most = ", ".join(reason for reason, _ in left_out.most_common(1)) or "there is no row"
        raise InputError(f"{name!r} holds no measured kernels ({most}); measure on a GPU")
    kept = table[measured]
    points = kept.rename(columns=_NAMES).assign(
        gpu=(gpu or catalog.resolve(_gpu_name(path))).name,
        labels="launch_config",
        precision="fp32",
        step_s=numeric_column(kept["iter_ms"], "iter_ms", name) / 1e3,
        nvml_utilisation=numeric_column(kept["nvml_util"], "nvml_util", name) / 100,
        memory_bytes=numeric_column(kept["peak_mib"], "peak_mib", name) * _MEBIBYTE,
        **{target: numeric_column(kept[column], column, name) / 100 for target, column in _LABELS.items()},
    )
    points, notes = _calculated_anew(points, path, catalog, gpu)
    return Reading(points, left_out, notes)


def _gpu_name(path: Path) -> str:
    """The driver's name of the GPU, from ``meta.json``."""
    meta = path.parent / "meta.json"
    try:
        parts = json.loads(meta.read_text("utf-8"))["parts"].values()
        names = {str(part["device"]) for part in parts if isinstance(part, dict) and "compute_capability" in part}
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        names = set()
    if len(names) != 1:
        found = f"names several GPUs ({', '.join(sorted(names))})" if names else "is missing or names no GPU"
        raise InputError(f"{meta.name} beside {str(path)!r} {found}; name the GPU by --gpu")
    return names.pop()


def _calculated_anew(
    points: pd.DataFrame, path: Path, catalog: Catalog, gpu: Gpu | None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Labels from the launches in the file beside this one, of rows of which it holds all launches."""
    beside = path.parent / KERNELS
    if not beside.is_file():
        return points, ()
    rows = occupancy_rows(kernel_files.read_any(beside), str(beside), catalog, gpu)
    found = {str(key): summarise(launches) for key, launches in rows.groupby("workload")}
    anew = pd.DataFrame(
        {target: [getattr(one.grid, target) for one in found.values()] for target in TARGETS}, index=pd.Index(found)
    )
    launches = points["key"].map({key: one.launches for key, one in found.items()})
    whole = launches.eq(points["kernels"])
    labels = anew.reindex(points["key"]).set_axis(points.index)[whole]
    apart = float(np.abs(labels.to_numpy() - points.loc[whole, list(TARGETS)].to_numpy()).max(initial=0.0))
    points = points.assign(**{target: labels[target].reindex(points.index).fillna(points[target]) for target in TARGETS})
    if apart <= _NOTABLE:
        return points, ()
    return points, (
        f"occupancies were calculated anew from {KERNELS}; those in {path.name} differ by up to {100 * apart:.1f} points",
    )
