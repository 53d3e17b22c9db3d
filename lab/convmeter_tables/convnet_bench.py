"""``convnet.csv`` of ``convnet_bench.py``: torchvision's networks and blocks of them, one row per phase, with the metrics
that come with the product."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import KEYS, TIMES, known_metrics
from epochcast.analyzer.traces.csv_text import numeric_column
from lab.convmeter_tables.joins import with_family, with_metrics
from lab.gpu_script_metadata import meta_beside

_PHASES = {
    "inference": "inference_seconds",
    "forward": "forward_seconds",
    "backward": "backward_seconds",
    "update_adam": "update_seconds",
    "step_adam": "step_seconds",
}
"""Adam is the paper's optimiser and measured everywhere; SGD only for a quarter of the networks, so it is passed over."""

_SAME = ["network", "family", "block", "image_size", "batch", "precision"]


def recognises(table: pd.DataFrame) -> bool:
    """Whether it has the columns of this file."""
    return {"model", "family", "block", "image", "batch", "precision", "phase", "median_ms"} <= set(table.columns)


def measured_networks(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """One row per network or block, images, batch and precision, with seconds of each phase; items that failed are left out.

    Columns: ``device``, ``network``, ``family``, ``block`` (class and number), ``image_size``, ``batch``, ``precision`` and
    those phases of ``inference_seconds``, ``forward_seconds``, ``backward_seconds``, ``update_seconds`` and ``step_seconds``
    that were measured. The device is what ``meta.json`` says; without it the file's folder, one per run, gives the name.
    """
    table = table[table["phase"].isin(_PHASES) & table["median_ms"].notna()]
    name = str(path)
    measured = pd.DataFrame(
        {
            "network": table["model"].astype(str),
            "family": table["family"].astype(str),
            "block": table["block"].fillna("").astype(str),
            "image_size": numeric_column(table["image"], "image", name),
            "batch": numeric_column(table["batch"], "batch", name),
            "precision": table["precision"].astype(str),
            "phase": table["phase"].map(_PHASES),
            "seconds": numeric_column(table["median_ms"], "median_ms", name) / 1e3,
        }
    )
    rows = measured.pivot_table("seconds", index=_SAME, columns="phase", aggfunc="median").reset_index()
    return rows.assign(device=str(meta_beside(path, "device", "name") or path.resolve().parent.name))


def read(table: pd.DataFrame, path: Path, features: pd.DataFrame | None) -> pd.DataFrame:
    """A point per network or block, images, batch and precision, on one device."""
    rows = measured_networks(table, path).assign(devices=1.0, nodes=1.0)
    metrics = known_metrics()
    blocks = metrics[metrics["block"] != ""]
    paths = dict(zip(zip(blocks["network"], blocks["block_name"], strict=True), blocks["block"], strict=True))
    rows = rows.assign(block=[paths.get(name, name[1]) for name in zip(rows["network"], rows["block"], strict=True)])
    return with_metrics(with_family(rows.reindex(columns=[*KEYS, *TIMES]), metrics), metrics)
