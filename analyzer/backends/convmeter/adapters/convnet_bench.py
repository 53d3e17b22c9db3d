"""convnet.csv of the project's GPU measurements: torchvision's networks and blocks of them, one row per phase."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from ....csv_text import numeric_column
from ....errors import InputError
from ..known_metrics import known_metrics
from ..points import KEYS, TIMES
from .known import with_family, with_metrics

NAME = "convnet.csv of convnet_bench.py"

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
    """Whether it has their columns."""
    return {"model", "family", "block", "image", "batch", "precision", "phase", "median_ms"} <= set(table.columns)


def read(table: pd.DataFrame, path: Path, features: pd.DataFrame | None) -> pd.DataFrame:
    """Points with the metrics that come with the product; items that failed are passed over.

    The device is told by ``meta.json`` beside the file; without it the file's folder, one per run, gives the name.
    """
    table = table[table["phase"].isin(_PHASES) & table["median_ms"].notna()]
    if table.empty:
        raise InputError(f"{str(path)!r} holds no measured phase; give a table in which networks ran")
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
    rows = rows.assign(device=_device(path), devices=1.0, nodes=1.0)
    metrics = known_metrics()
    blocks = metrics[metrics["block"] != ""]
    paths = dict(zip(zip(blocks["network"], blocks["block_name"], strict=True), blocks["block"], strict=True))
    rows = rows.assign(block=[paths.get(name, name[1]) for name in zip(rows["network"], rows["block"], strict=True)])
    return with_metrics(with_family(rows.reindex(columns=[*KEYS, *TIMES]), metrics), metrics)


def _device(path: Path) -> str:
    try:
        return str(json.loads(path.with_name("meta.json").read_text(encoding="utf-8"))["device"]["name"])
    except (OSError, ValueError, TypeError, KeyError):
        return path.resolve().parent.name
