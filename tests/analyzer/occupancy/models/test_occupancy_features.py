"""Table I as numbers, against the same told one operator at a time."""

from collections.abc import Callable
from math import log1p

import numpy as np
import pytest

from epochcast.analyzer.backends.occupancy.configuration import Sample
from epochcast.analyzer.backends.occupancy.features import (
    EDGE_NAMES,
    NODE_NAMES,
    edge_features,
    node_features,
    peak_flops,
)

MadeSample = Callable[..., Sample]


def naive_node(sample: Sample, place: int) -> dict[str, float]:
    graph, gpu = sample.graph, sample.gpu
    width = (4 if sample.configuration.precision == "fp32" else 2) if graph.floating[place] else 8
    told = {f"is_{graph.words[place]}": 1.0}
    for name in ("read", "written", "temporary", "weights"):
        told[f"{name}_bytes"] = log1p(width * graph.column(name)[place])
    told |= {
        "flops": log1p(graph.column("flops")[place]),
        "gpu_memory_bytes": log1p(gpu.memory),
        "gpu_sms": log1p(gpu.sm_count),
    }
    told["gpu_flops"] = log1p(peak_flops(gpu, sample.configuration.precision))
    return told


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_node_is_told_by_table_i(made_sample: MadeSample, precision: str) -> None:
    sample = made_sample(12, precision=precision)
    rows = node_features(sample)
    assert rows.shape == (12, len(NODE_NAMES))
    hyper = [name for name in NODE_NAMES if name not in naive_node(sample, 0) and not name.startswith("is_")]
    for place, row in enumerate(rows):
        told = naive_node(sample, place) | {name: log1p(sample.graph.column(name)[place]) for name in hyper}
        expected = [told.get(name, 0.0) for name in NODE_NAMES]
        np.testing.assert_allclose(row, expected, rtol=1e-6)


def test_an_edge_is_told_by_type_bytes_and_bandwidth(made_sample: MadeSample) -> None:
    sample = made_sample(12, precision="fp16")
    rows = edge_features(sample)
    assert rows.shape == (sample.graph.edges.shape[1], len(EDGE_NAMES))
    for row, source, kind, elements in zip(
        rows, sample.graph.edges[0], sample.graph.edge_types, sample.graph.edge_elements, strict=True
    ):
        width = 2 if sample.graph.floating[source] else 8
        expected = [kind == 0, kind == 1, kind == 2, log1p(width * elements), log1p(sample.gpu.memory_bandwidth)]
        np.testing.assert_allclose(row, expected, rtol=1e-6)
