"""Graphs by hand, a dictionary for each operator."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epochcast.analyzer.backends.occupancy.graph.computation_graph import HYPER_PARAMETERS, SIZES, ComputationGraph


def made_graph(
    *operators: Mapping[str, Any],
    name: str = "made",
    batch: int = 1,
    edges: Sequence[tuple[int, int]] = (),
    unknown: dict[str, int] | None = None,
) -> ComputationGraph:
    """``word`` and what applies of HYPER_PARAMETERS and SIZES."""
    sizes = np.array([[float(one.get(column, 0)) for column in SIZES] for one in operators])
    fixed = np.where(np.array(SIZES) == "weights", sizes, 0.0)
    return ComputationGraph(
        name=name,
        batch=batch,
        words=tuple(one["word"] for one in operators),
        hyper_parameters=np.array([[float(one.get(column, 0)) for column in HYPER_PARAMETERS] for one in operators]),
        sizes=sizes,
        fixed=fixed,
        floating=np.array([one.get("floating", True) for one in operators], dtype=bool),
        edges=np.array(edges, dtype=np.int64).reshape(-1, 2).T,
        unknown=unknown or {},
    )
