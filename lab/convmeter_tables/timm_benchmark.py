"""Tables of timm's `benchmark.py` (huggingface/pytorch-image-models, `results/benchmark-*.csv`): step time of each network
at one batch, images and precision; a table of inference, of training, or of both."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import KEYS, TIMES
from epochcast.analyzer.traces.csv_text import numeric_column
from lab.convmeter_tables.joins import with_metrics

_PHASES = {"infer": "inference_seconds", "train": "step_seconds"}
_FILE = re.compile(r"benchmark-(?:infer|train|both)-(?P<precision>[^-]+)-(?P<device>.+)")


def recognises(table: pd.DataFrame) -> bool:
    """Whether it has a network and the step time, batch and image size of one kind of step."""
    return "model" in table and any(_columns(kind) <= set(table.columns) for kind in _PHASES)


def read(table: pd.DataFrame, path: Path, features: pd.DataFrame | None) -> pd.DataFrame:
    """Points with the metrics of the same network at the same image size in ``features``.

    The file's name has the precision, and then the ``device``: memory layout, versions and device, for other layouts and
    versions take other times. A file of another name is a device of that name. Rows without a time (the network did not run)
    are passed over.
    """
    kinds = [kind for kind in _PHASES if _columns(kind) <= set(table.columns)]
    rows = pd.concat([_rows(table, kind, path) for kind in kinds], ignore_index=True)
    stem = re.sub(r"\.csv(\.gz)?$", "", path.name)
    match = _FILE.fullmatch(stem)
    rows = rows.assign(device=match["device"] if match else stem, precision=match["precision"] if match else "unstated")
    return with_metrics(rows.reindex(columns=[*KEYS, *TIMES]), features)


def _columns(kind: str) -> set[str]:
    return {f"{kind}_{name}" for name in ("step_time", "batch_size", "img_size")}


def _rows(table: pd.DataFrame, kind: str, path: Path) -> pd.DataFrame:
    step, batch, size = (
        numeric_column(table[name], name, str(path)) for name in (f"{kind}_step_time", f"{kind}_batch_size", f"{kind}_img_size")
    )
    ran = (step > 0) & (batch > 0) & (size > 0)
    return pd.DataFrame(
        {
            # After the dot comes the data that the weights were trained on, which does not matter here.
            "network": table["model"].astype(str).str.split(".").str[0],
            "block": "",
            "image_size": size,
            "batch": batch,
            "devices": 1.0,
            "nodes": 1.0,
            _PHASES[kind]: step / 1e3,
        }
    )[ran]
