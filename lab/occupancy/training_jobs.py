"""Networks while they trained, as DCGM saw them: tables with one row per training.

Two kinds of tables. Those of GPUMemNet (itu-rad) are of random networks: ``name`` (sizes and architecture), ``layers`` (kind,
elements, parameters of each), ``batch``; all on an A100 SXM4 40GB in FP32, means over a minute with the start of the
training in it. Those of ``python -m lab.measure occupancy`` name a network with its sizes and the GPU (``COLUMNS``),
means over the steps alone. Both have ``peak_memory_mib``; ``sm_occupancy`` and ``sm_active``, ratios 0..1, and
``gpu_utilization_percent`` (NVML's), -1 where they were not read; and ``status``, where rows may have run out of memory.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.occupancy.networks import NetworkConfiguration, Sample, graph_of
from epochcast.analyzer.backends.occupancy.packing.jobs import GPU
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import numeric_column, parse_csv, read_text
from epochcast.regressor import Catalog, Gpu
from lab.occupancy.from_layers import ListedLayer, graph_of_layers
from lab.occupancy.measurement import COLUMNS, CONFIGURATION, FIGURES, SUCCESSFUL

Label = Literal["sm_occupancy", "sm_active", "peak_memory"]
LABELS: tuple[str, ...] = get_args(Label)
"""``peak_memory`` is in bytes here, from the column ``peak_memory_mib``."""

LEAST = 0.005
"""Ratios at or below are not scored: relative errors of idle trainings say nothing."""

_LISTED = ("name", "layers", "batch", *FIGURES)
_NAME = re.compile(
    r"(?:input_channels:(?P<channels>\d+)_num_classes:\d+|input:(?P<features>\d+)_output:\d+)_depth:\d+"
    r"_arch:(?P<architecture>[a-z]+)(?:_base_filters:\d+)?_batch:\d+(?:_input_size:(?P<side>\d+))?_act:\w+?_dropout:"
)


@dataclass(frozen=True)
class TrainingJobs:
    """Trainings with their graphs.

    Attributes:
        points: n rows: ``network``, ``architecture`` (of a named network its name), ``layers`` (as text: equal for equal
            networks), ``gpu``, ``depth``, ``width`` (most channels or features), ``batch``, :data:`LABELS` and
            ``nvml_utilisation``, 0..1 (NaN where not measured), ``fits``, ``nodes``, ``edges``.
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


def read_training_jobs(paths: Sequence[Path], catalog: Catalog, gpu: Gpu | None = None) -> TrainingJobs:
    """Read tables as one.

    Args:
        paths: CSV files or .csv.gz.
        catalog: of GPUs.
        gpu: that tables without a column ``gpu`` were measured on; None: :data:`GPU`.

    Raises:
        InputError: a file is missing or no such table, a cell is none that can be, a network cannot be built, or no row is
            left.
    """
    board = gpu or catalog.resolve(GPU)
    parts: list[pd.DataFrame] = []
    samples: list[Sample] = []
    left_out: Counter[str] = Counter()
    for path in paths:
        table = parse_csv(read_text(path), str(path), as_text=("name", "network", "status"))
        listed = "name" in table
        if missing := set(_LISTED if listed else COLUMNS) - set(table):
            raise InputError(f"{str(path)!r} lacks {', '.join(sorted(missing))}; give a table of measured trainings")
        for column in (*FIGURES, "batch"):
            table[column] = numeric_column(table[column], column, str(path))
        ran = table["status"].eq(SUCCESSFUL) if "status" in table else pd.Series(True, table.index)
        known = table["layers"].astype(str).str.strip() != "[]" if listed else ran | ~ran
        empty = ~known | ((table["peak_memory_mib"] <= 0) & (ran | listed))
        left_out["without layers or memory"] += int(empty.sum())
        table, ran = table[~empty], ran[~empty]
        rows = table.to_dict("records")
        own = [_listed(row, str(path), board) if listed else _named(row, catalog) for row in rows]
        samples += own
        parts.append(_points(table, ran, own, listed))
    points = pd.concat(parts, ignore_index=True)
    if points.empty:
        raise InputError(f"{', '.join(map(str, paths))}: no row has layers and a peak of memory; give a table of trainings")
    return TrainingJobs(points, tuple(samples), left_out)


def _points(table: pd.DataFrame, ran: pd.Series[bool], samples: Sequence[Sample], listed: bool) -> pd.DataFrame:
    figures = {name: table[name].where(table[name] >= 0).to_numpy() for name in FIGURES}
    names = table["name" if listed else "network"].to_numpy(dtype=object)
    return pd.DataFrame(
        {
            "network": names,
            "architecture": [_NAME.match(name)["architecture"] for name in names] if listed else names,  # type: ignore[index]
            "layers": table["layers"].to_numpy() if listed else names,
            "gpu": [sample.gpu.name for sample in samples],
            "depth": [sum(word in ("convolution", "linear") for word in sample.graph.words) for sample in samples],
            "width": [int(sample.graph.column("output_features").max()) for sample in samples],
            "batch": table["batch"].astype(int).to_numpy(),
            "sm_occupancy": figures["sm_occupancy"],
            "sm_active": figures["sm_active"],
            "nvml_utilisation": figures["gpu_utilization_percent"] / 100,
            "peak_memory": figures["peak_memory_mib"] * 2**20,
            "fits": ran.to_numpy(dtype=bool),
            "nodes": [len(sample.graph) for sample in samples],
            "edges": [2 * sample.graph.edges.shape[1] for sample in samples],
        }
    )


def _named(row: Mapping[Hashable, Any], catalog: Catalog) -> Sample:
    """A row of ``python -m lab.measure occupancy``."""
    sizes = {name: int(row[name]) for name in CONFIGURATION if name not in ("network", "precision")}
    configuration = NetworkConfiguration(row["network"], precision=row["precision"], **sizes)
    return Sample(configuration, graph_of(configuration).in_training(), catalog.resolve(row["gpu"]))


def _listed(row: Mapping[Hashable, Any], path: str, gpu: Gpu) -> Sample:
    """A row of GPUMemNet's tables."""
    name, batch = str(row["name"]), int(row["batch"])
    match = _NAME.match(name)
    if match is None:
        raise InputError(f"{path!r} has a network named {name!r}, which does not say its input and architecture as others do")
    layers = [ListedLayer(str(kind), int(written), int(own)) for kind, written, own in ast.literal_eval(str(row["layers"]))]
    channels, side = int(match["channels"] or match["features"]), int(match["side"] or 1)
    graph = graph_of_layers(name, layers, match["architecture"], channels, side, batch)
    configuration = NetworkConfiguration(name, batch, side if match["side"] else 0)
    return Sample(configuration, graph, gpu)
