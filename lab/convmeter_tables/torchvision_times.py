"""torchvision_step_times.csv.gz: medians of ryujaehun/pytorch-gpu-benchmark, torchvision's networks at 224 pixels and 12
images per GPU, on one to four GPUs of one node under DataParallel."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import KEYS, TIMES, known_metrics
from epochcast.analyzer.traces.csv_text import numeric_column
from lab.convmeter_tables.joins import with_family, with_metrics

_IMAGE_SIZE, _BATCH = 224, 12
_PRECISIONS = {"half": "fp16", "float": "fp32", "single": "fp32", "double": "fp64"}
_PHASES = {"infer": "inference_seconds", "train": "step_seconds"}
_SAME = ["device", "precision", "network", "devices"]


def recognises(table: pd.DataFrame) -> bool:
    """Whether it has their columns."""
    return {"dev", "prec", "ngpu", "kind", "model", "ms"} <= set(table.columns)


def read(table: pd.DataFrame, path: Path, features: pd.DataFrame | None) -> pd.DataFrame:
    """Points with the metrics that come with the product; the same measured in several folders (``dir``) counts once."""
    table = table.dropna(subset=["ms"])
    measured = pd.DataFrame(
        {
            "device": table["dev"].astype(str),
            "precision": table["prec"].map(_PRECISIONS),
            "network": table["model"].astype(str),
            "devices": numeric_column(table["ngpu"], "ngpu", str(path)),
            "phase": table["kind"].map(_PHASES),
            "seconds": numeric_column(table["ms"], "ms", str(path)) / 1e3,
        }
    )
    rows = measured.pivot_table("seconds", index=_SAME, columns="phase", aggfunc="median").reset_index()
    rows = rows.assign(block="", image_size=float(_IMAGE_SIZE), batch=float(_BATCH), nodes=1.0)
    metrics = known_metrics()
    return with_metrics(with_family(rows.reindex(columns=[*KEYS, *TIMES]), metrics), metrics)
