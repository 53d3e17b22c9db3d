"""One iteration from its pieces, on graphs written by hand; the paper's equations by the calculator."""

from dataclasses import replace

import numpy as np
import pytest
from hand_made import graph, product
from hypothesis import given
from hypothesis import strategies as st

from epochcast.analyzer.backends.distributed.communication.cluster import (
    all_gather_seconds,
    all_reduce_seconds,
    cluster_for,
    reduce_scatter_seconds,
)
from epochcast.analyzer.backends.distributed.fitted_model import Coefficients
from epochcast.analyzer.backends.distributed.iteration import BUCKET_BYTES, exposed_data_parallel, iteration, prepare
from epochcast.analyzer.backends.distributed.models.graph import ModelBlock, Tensor, Weight
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.predictor import by_equations
from lab.rivals.distributed.roofline import IDEAL

GPU = "A100 SXM4 80GB"


class Each:
    """A source of times under which every product takes as long."""

    def __init__(self, seconds=1.0):
        self.one = seconds

    def seconds(self, operators):
        return np.array([self.one * (operator.kind == "matmul") for operator in operators])


def run(job, one=None, coefficients=IDEAL, times=None, cluster=None):
    return iteration(prepare(one or graph(), job, cluster or cluster_for(GPU, job.gpus)), times or Each(), coefficients)


@pytest.mark.parametrize(
    "job",
    [
        TrainingConfiguration(precision="fp32"),
        TrainingConfiguration(data=4, global_batch=8, precision="fp32", zero=1),
        TrainingConfiguration(data=2, tensor=2, pipeline=2, global_batch=8, precision="fp32", recomputation="full"),
        TrainingConfiguration(data=2, pipeline=4, global_batch=16, precision="fp32", overlap=True, schedule="gpipe"),
        TrainingConfiguration(pipeline=2, virtual_stages=2, global_batch=4, precision="fp32"),
    ],
)
def test_the_parts_make_up_the_whole(job) -> None:
    answer = run(job, graph(exchanges=2), Coefficients())
    parts = answer.parts.labelled.values()
    assert answer.seconds == pytest.approx(sum(parts))
    assert all(part >= 0 for part in parts)


def test_a_pipeline_waits_for_its_depth_and_not_for_its_micro_batches() -> None:
    for micro_batches in (1, 4, 16):
        answer = run(
            TrainingConfiguration(pipeline=4, global_batch=micro_batches, precision="fp32"),
            coefficients=replace(IDEAL, network=1e9, node_link=1e9),
        )
        assert answer.parts.compute["matmul"] == pytest.approx(3.0 * micro_batches)  # one layer on each of four stages
        assert answer.parts.bubble == pytest.approx(3 * 3.0)


def test_recomputation_runs_each_layer_forward_once_more() -> None:
    none, full = (
        run(TrainingConfiguration(precision="fp32", recomputation=how), graph(exchanges=1)) for how in ("none", "full")
    )
    assert full.parts.compute["recomputation"] == pytest.approx(4.0)
    assert full.parts.compute["matmul"] == none.parts.compute["matmul"] == pytest.approx(12.0)


def test_tensor_ranks_exchange_in_every_layer_and_pass_and_micro_batch() -> None:
    cluster = cluster_for(GPU, 2)
    once = all_reduce_seconds(cluster, 2048 * 1024 * 4, 2, 1)
    job = TrainingConfiguration(tensor=2, global_batch=4, precision="fp32")
    answer = run(job, graph(exchanges=2))
    assert answer.parts.tensor_parallel == pytest.approx(4 * 4 * 4 * once)
    hidden = run(replace(job, tensor_overlap=True), graph(exchanges=2))
    assert hidden.parts.tensor_parallel == pytest.approx(4 * 4 * 2 * once)  # the weight gradient's second hides all of backward
    again = run(replace(job, recomputation="full"), graph(exchanges=2))
    assert again.parts.tensor_parallel == pytest.approx(4 * 4 * 6 * once)


def test_gradients_are_reduced_once_and_hidden_only_by_the_backward_pass() -> None:
    cluster = cluster_for(GPU, 8)
    gradients = 4 * 1024 * 1024 * 4
    job = TrainingConfiguration(data=8, global_batch=8, precision="fp32")
    assert run(job).parts.data_parallel == pytest.approx(all_reduce_seconds(cluster, gradients, 8, 1))
    wide = graph(width=4096)  # several buckets
    assert run(replace(job, overlap=True), wide).parts.data_parallel < run(job, wide).parts.data_parallel / 2
    assert run(TrainingConfiguration(precision="fp32")).parts.data_parallel == 0


@pytest.mark.parametrize(
    ("precision", "dtype", "options", "bytes_per_parameter"),
    [
        ("fp32", "float32", {}, 28),  # weight, gradient and two moments read; weight and moments written
        ("fp32", "float32", {"optimizer": "sgd"}, 20),
        ("bf16", "bfloat16", {}, 28),  # FP32 master and moments, gradient read and weight written in 16 bits
        ("bf16", "bfloat16", {"master_weights": False}, 14),
        ("fp16", "float16", {}, 32),  # loss scaling reads and writes the gradient
    ],
)
def test_the_optimizer_moves_every_state_once(precision, dtype, options, bytes_per_parameter) -> None:
    prepared = prepare(graph(dtype=dtype), TrainingConfiguration(precision=precision, **options), cluster_for(GPU, 1))
    assert prepared.update_bytes == bytes_per_parameter * 4 * 1024 * 1024


def test_the_papers_equations_by_the_calculator() -> None:
    job = TrainingConfiguration(data=2, tensor=2, pipeline=2, global_batch=8, precision="fp32")
    one = graph(sliced=True, exchanges=2)
    cluster = cluster_for(GPU, 8)
    answer = by_equations(prepare(one, job, cluster), Each(), IDEAL)
    t_comp = 2 * 3.0 * 4  # two layers of three products on a stage, four micro-batches
    volume = 2 * 1024 * 1024 * 4
    t_dp = t_tp = volume / cluster.intra.bandwidth
    assert (answer.parts.data_parallel, answer.parts.tensor_parallel) == (pytest.approx(t_dp), pytest.approx(t_tp))
    assert answer.parts.bubble == pytest.approx(t_comp)
    assert answer.seconds == pytest.approx(t_comp + t_dp + t_tp + t_comp * (2 - 1))
    alone = prepare(one, TrainingConfiguration(precision="fp32"), cluster_for(GPU, 1))
    assert by_equations(alone, Each(), IDEAL).seconds == pytest.approx(12.0)


WORDS = Tensor((50_000, 1024), "float32")


def with_ends(tied):
    """Embeddings before and after the layers, with a product each way behind them."""
    before, after = (Weight(name, WORDS, "float32") for name in ("words", "words" if tied else "head"))
    head = (product(2048, 1024, 1024), product(2048, 1024, 1024, "backward"))
    ends = {"before": ModelBlock("before", (), (before,)), "after": ModelBlock("after", head, (after,))}
    return replace(graph(), **ends, tied=("words",) if tied else ())


def test_recomputation_leaves_the_ends_alone_and_selective_takes_the_core() -> None:
    layer = graph().blocks[0]
    core = product(2048, 1024, 1024, module="blocks.0.attention.core")
    one = replace(with_ends(False), blocks=(replace(layer, operators=(*layer.operators, core), recomputed=2),) * 4)
    again = {
        how: run(TrainingConfiguration(precision="fp32", recomputation=how), one).parts.compute.get("recomputation")
        for how in ("none", "selective", "full")
    }
    assert again == {"none": None, "selective": 4.0, "full": 8.0}
    selective = TrainingConfiguration(precision="fp32", recomputation="selective")
    assert run(selective, one).notes == ()
    assert run(selective, graph()).notes == (
        "selective recomputation changes nothing: the model has no module `core` with attention",
    )


def test_zero_scatters_gradients_and_gathers_weights_each_in_their_dtype() -> None:
    weight = Weight("weight", Tensor((1024, 1024), "bfloat16"), "float32")
    one = replace(graph(), blocks=(replace(graph().blocks[0], weights=(weight,)),) * 4)
    job, cluster = TrainingConfiguration(data=8, global_batch=8, precision="bf16", zero=1), cluster_for(GPU, 8)
    count = 4 * 1024 * 1024
    assert run(job, one).parts.data_parallel == pytest.approx(
        reduce_scatter_seconds(cluster, 4 * count, 8) + all_gather_seconds(cluster, 2 * count, 8)
    )
    scaled = prepare(one, replace(job, precision="fp16"), cluster).update_bytes
    assert (
        scaled == prepare(one, TrainingConfiguration(precision="fp16"), cluster_for(GPU, 1)).update_bytes / 8 == 32 * count / 8
    )


def test_each_group_reaches_the_speed_of_where_it_lies() -> None:
    job = TrainingConfiguration(data=2, tensor=8, global_batch=2, precision="fp32")
    cluster = cluster_for(GPU, 16, 8)
    plain, slow_network, slow_node = (
        run(job, graph(exchanges=1), replace(IDEAL, **slower), cluster=cluster)
        for slower in ({}, {"network": 0.5}, {"node_link": 0.5})
    )
    assert slow_network.parts.data_parallel == pytest.approx(2 * plain.parts.data_parallel)
    assert slow_node.parts.data_parallel == plain.parts.data_parallel
    assert slow_node.parts.tensor_parallel == pytest.approx(2 * plain.parts.tensor_parallel)
    assert slow_network.parts.tensor_parallel == plain.parts.tensor_parallel


def one_by_one(backward: float, nbytes: float, latency: float, bandwidth: float, bucket: float) -> float:
    """Each bucket starts when it is full and the one before is done."""
    done, ready = 0.0, 0.0
    while ready < nbytes:
        size = min(bucket, nbytes - ready)
        ready += size
        done = max(done, backward * ready / nbytes) + latency + size / bandwidth
    return done - backward


@given(backward=st.floats(0, 2), buckets=st.floats(0.01, 60), latency=st.floats(0, 0.05), bandwidth=st.floats(1e7, 1e12))
def test_it_agrees_with_buckets_one_by_one(backward: float, buckets: float, latency: float, bandwidth: float) -> None:
    nbytes = buckets * BUCKET_BYTES
    exposed = exposed_data_parallel(backward, nbytes, lambda size: latency + size / bandwidth, overlap=True)
    assert exposed == pytest.approx(one_by_one(backward, nbytes, latency, bandwidth, BUCKET_BYTES), rel=1e-6, abs=1e-9)
