"""cpu_phases.csv: torchvision's networks on one thread of a CPU, processor seconds of each phase, with their metrics."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import KEYS, TIMES, known_metrics
from epochcast.analyzer.traces.csv_text import numeric_column
from lab.convmeter_tables.joins import with_family
from lab.convmeter_tables.layer_features import metrics_of

_TRAINING = {"forward_seconds": "fwd", "backward_seconds": "bwd", "update_seconds": "upd"}


def recognises(table: pd.DataFrame) -> bool:
    """Whether it has their columns."""
    return {"model", "size", "bs", "bs_train", "inf", *_TRAINING.values(), "F", "conv_in", "conv_out"} <= set(table.columns)


def read(table: pd.DataFrame, path: Path, features: pd.DataFrame | None) -> pd.DataFrame:
    """Two points per row: inference at ``bs`` images, training at ``bs_train``; a step is the sum of its phases."""
    name = str(path)
    keys = pd.DataFrame(
        {
            "device": re.sub(r"\.csv(\.gz)?$", "", path.name),
            "precision": "fp32",
            "network": table["model"].astype(str),
            "block": "",
            "image_size": numeric_column(table["size"], "size", name),
            "devices": 1.0,
            "nodes": 1.0,
        }
    )
    inference = keys.assign(
        batch=numeric_column(table["bs"], "bs", name), inference_seconds=numeric_column(table["inf"], "inf", name)
    )
    phases = {ours: numeric_column(table[theirs], theirs, name) for ours, theirs in _TRAINING.items()}
    training = keys.assign(
        batch=numeric_column(table["bs_train"], "bs_train", name), **phases, step_seconds=sum(phases.values())
    )
    metrics = metrics_of(table, path)
    both = [pd.concat([rows.reindex(columns=[*KEYS, *TIMES]), metrics], axis=1) for rows in (inference, training)]
    return with_family(pd.concat(both, ignore_index=True), known_metrics())
