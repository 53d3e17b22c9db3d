"""Random networks while they trained, as DCGM saw them: tables of GPUMemNet (itu-rad), one row per training of a minute.

Columns: ``name`` (sizes and architecture), ``depth``, ``layers`` (kind, elements, parameters of each), ``batch``;
``peak_memory_mib``; ``sm_occupancy`` and ``sm_active``, ratios 0..1, and ``gpu_utilization_percent`` (NVML's), means over the
minute with the start of the training in it, -1 where they were not read; ``status``, where rows may have run out of memory. All
were measured on an A100 SXM4 40GB in FP32.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....regressor import Gpu
from ...csv_text import numeric_column, parse_csv, read_text
from ...errors import InputError
from .configuration import Configuration
from .graph.from_layers import ListedLayer, graph_of_layers
from .sample import Sample

Label = Literal["sm_occupancy", "sm_active", "peak_memory"]
LABELS: tuple[str, ...] = get_args(Label)
"""``peak_memory`` is in bytes here, from the column ``peak_memory_mib``."""

GPU = "A100 SXM4 40GB"
"""That the tables were measured on (their README)."""

LEAST = 0.005
"""Ratios at or below are not scored: relative errors of idle trainings say nothing."""

_COLUMNS = ("name", "depth", "layers", "batch", "peak_memory_mib", "gpu_utilization_percent", "sm_active", "sm_occupancy")
_NAME = re.compile(
    r"(?:input_channels:(?P<channels>\d+)_num_classes:\d+|input:(?P<features>\d+)_output:\d+)_depth:\d+"
    r"_arch:(?P<architecture>[a-z]+)(?:_base_filters:\d+)?_batch:\d+(?:_input_size:(?P<side>\d+))?_act:\w+?_dropout:"
)


@dataclass(frozen=True)
class TrainingJobs:
    """Trainings with their graphs.

    Attributes:
        points: n rows: ``network`` (its name), ``architecture``, ``layers`` (as text: equal for equal networks), ``depth``,
            ``width`` (most channels or features), ``batch``, :data:`LABELS` and ``nvml_utilisation``, 0..1 (NaN where not
            measured), ``fits``, ``nodes``, ``edges``.
        samples: graph and GPU of each row, n.
        left_out: how many rows have no network or no label, by the reason.
    """

    points: pd.DataFrame
    samples: tuple[Sample, ...]
    left_out: Mapping[str, int]

    def only(self, rows: NDArray[np.bool_]) -> TrainingJobs:
        """Those of a mask of shape (n,)."""
        kept = tuple(sample for sample, own in zip(self.samples, rows.tolist(), strict=True) if own)
        return TrainingJobs(self.points[rows].reset_index(drop=True), kept, self.left_out)

    def labelled(self, label: str) -> TrainingJobs:
        """Those that ran to their end and have the label; ratios above :data:`LEAST`."""
        return self.only(self._scored(label) & self.points["fits"].to_numpy(dtype=bool))

    def crashed(self, label: str) -> TrainingJobs:
        """Those that ran out of memory and have the label all the same."""
        return self.only(self._scored(label) & ~self.points["fits"].to_numpy(dtype=bool))

    def _scored(self, label: str) -> NDArray[np.bool_]:
        least = 0.0 if label == "peak_memory" else LEAST
        return (self.points[label] > least).to_numpy(dtype=bool)


def recognises(table: pd.DataFrame) -> bool:
    """Whether a table has these columns."""
    return set(_COLUMNS) <= set(table.columns)


def read_training_jobs(paths: Sequence[Path], gpu: Gpu) -> TrainingJobs:
    """Read tables as one.

    Args:
        paths: CSV files or .csv.gz.
        gpu: that was measured.

    Raises:
        InputError: a file is missing or no such table, a cell is none that can be, or no row is left.
    """
    parts, samples = [], []
    left_out: dict[str, int] = {}
    for path in paths:
        table = parse_csv(read_text(path), str(path), as_text=("name", "layers", "status"))
        if not recognises(table):
            missing = next(name for name in _COLUMNS if name not in table)
            raise InputError(f"{str(path)!r} lacks the column {missing!r}; give a table of trainings measured by DCGM")
        for column in _COLUMNS[3:]:
            table[column] = numeric_column(table[column], column, str(path))
        empty = (table["layers"].str.strip() == "[]") | (table["peak_memory_mib"] <= 0)
        if empty.any():
            left_out["without layers or memory"] = left_out.get("without layers or memory", 0) + int(empty.sum())
        table = table[~empty]
        own = [_sample(row, str(path), gpu) for _, row in table.iterrows()]
        samples += own
        parts.append(_points(table, own))
    points = pd.concat(parts, ignore_index=True)
    if points.empty:
        raise InputError(f"{', '.join(map(str, paths))}: no row has layers and a peak of memory; give a table of trainings")
    return TrainingJobs(points, tuple(samples), left_out)


def _points(table: pd.DataFrame, samples: Sequence[Sample]) -> pd.DataFrame:
    status = table["status"] if "status" in table else pd.Series("SUCCESSFUL", table.index)
    ratios = {name: table[name].where(table[name] >= 0).to_numpy() for name in ("sm_occupancy", "sm_active")}
    utilisation = table["gpu_utilization_percent"]
    return pd.DataFrame(
        {
            "network": table["name"].to_numpy(),
            "architecture": [_NAME.match(name)["architecture"] for name in table["name"]],  # type: ignore[index]
            "layers": table["layers"].to_numpy(),
            "depth": [sum(word in ("convolution", "linear") for word in one.graph.words) for one in samples],
            "width": [int(one.graph.column("output_features").max()) for one in samples],
            "batch": table["batch"].astype(int).to_numpy(),
            **ratios,
            "nvml_utilisation": utilisation.where(utilisation >= 0).to_numpy() / 100,
            "peak_memory": table["peak_memory_mib"].to_numpy() * 2**20,
            "fits": status.eq("SUCCESSFUL").to_numpy(),
            "nodes": [len(one.graph) for one in samples],
            "edges": [one.graph.edges.shape[1] for one in samples],
        }
    )


def _sample(row: pd.Series[Any], path: str, gpu: Gpu) -> Sample:
    name, batch = str(row["name"]), int(float(str(row["batch"])))
    found = _NAME.match(name)
    if found is None:
        raise InputError(f"{path!r} has a network named {name!r}, which does not say its input and architecture as others do")
    try:
        layers = [ListedLayer(str(kind), int(written), int(own)) for kind, written, own in ast.literal_eval(str(row["layers"]))]
    except (ValueError, SyntaxError, TypeError) as error:
        raise InputError(f"{path!r}: the layers of {name!r} are no list of (kind, elements, parameters)") from error
    channels, side = int(found["channels"] or found["features"]), int(found["side"] or 1)
    graph = graph_of_layers(name, layers, found["architecture"], channels, side, batch)
    configuration = Configuration(
        name, batch, channels=channels if found["side"] else 0, image_size=side if found["side"] else 0
    )
    return Sample(configuration, graph, gpu)
