"""Table I as numbers, against the same told one operator at a time."""

from collections.abc import Callable
from math import log1p

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from epochcast.analyzer.backends.occupancy.features import (
    EDGE_NAMES,
    NODE_NAMES,
    Standardiser,
    edge_features,
    node_features,
    peak_flops,
)
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

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


def test_an_unknown_precision_is_one_sentence(made_sample: MadeSample) -> None:
    with pytest.raises(InputError, match="unknown precision 'int4'; known are fp32, fp16, bf16"):
        node_features(made_sample(3, precision="int4"))


def test_halves_count_with_tensor_cores_where_a_gpu_has_them() -> None:
    catalog = load_catalog()
    t4, p100 = catalog.resolve("T4"), catalog.resolve("P100 PCIe 16GB")
    assert peak_flops(t4, "fp16") == t4.fp16_tensor_flops
    assert peak_flops(p100, "fp16") == p100.fp16_flops
    assert peak_flops(p100, "bf16") == peak_flops(p100, "fp32") == p100.effective_flops


rows_of_columns = arrays(np.float32, st.tuples(st.integers(1, 30), st.just(5)), elements=st.sampled_from([0, 1, 2.5, -3, 40]))


@given(st.lists(rows_of_columns, min_size=1, max_size=4))
def test_columns_are_standardised_unless_binary_or_constant(parts: list[np.ndarray]) -> None:
    whole = np.concatenate(parts).astype(float)
    standardised = Standardiser.fit(parts).apply(whole.astype(np.float32))
    for column in range(whole.shape[1]):
        before, after = whole[:, column], standardised[:, column]
        if len(set(before)) == 1:
            assert not after.any()
        elif set(before) <= {0.0, 1.0}:
            np.testing.assert_array_equal(after, before)
        else:
            np.testing.assert_allclose(after, (before - before.mean()) / before.std(), rtol=1e-4, atol=1e-5)


def test_what_was_never_seen_stays_zero() -> None:
    seen = np.array([[0, 7, 1], [0, 7, 5]], dtype=np.float32)
    assert Standardiser.fit([seen]).apply(np.array([[1, 9, 3]], dtype=np.float32)).tolist() == [[0, 0, 0]]


def test_graphs_without_edges_have_a_standardiser_too(made_sample: MadeSample) -> None:
    single = edge_features(made_sample(1))
    assert Standardiser.fit([single]).apply(single).shape == (0, len(EDGE_NAMES))
