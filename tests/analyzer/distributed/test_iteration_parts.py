"""What one iteration adds to its operators, each part by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hand_made import graph, product

from epochcast.analyzer.backends.distributed.communication import (
    all_gather_seconds,
    all_reduce_seconds,
    cluster_for,
    point_to_point_seconds,
    reduce_scatter_seconds,
)
from epochcast.analyzer.backends.distributed.graph import Block, Operator, Tensor, Weight
from epochcast.analyzer.backends.distributed.iteration import iteration, prepare, stage_times
from epochcast.analyzer.backends.distributed.job import Job
from epochcast.analyzer.backends.distributed.overlap import exposed_data_parallel
from epochcast.analyzer.backends.distributed.recipes.roofline import IDEAL
from epochcast.analyzer.backends.distributed.schedule import pipeline_seconds

GPU = "A100 SXM4 80GB"
WORDS = Tensor((50_000, 1024), "float32")


class Each:
    """A source of times under which every product takes as long."""

    def __init__(self, seconds=1.0):
        self.one = seconds

    def seconds(self, operators):
        return np.array([self.one * (operator.kind == "matmul") for operator in operators])


def run(job, one, coefficients=IDEAL, times=None, cluster=None):
    return iteration(prepare(one, job, cluster or cluster_for(GPU, job.gpus)), times or Each(), coefficients)


def with_ends(tied):
    """Embeddings before and after the layers, with a product each way behind them."""
    before, after = (Weight(name, WORDS, "float32") for name in ("words", "words" if tied else "head"))
    head = (product(2048, 1024, 1024), product(2048, 1024, 1024, "backward"))
    ends = {"before": Block("before", (), (before,)), "after": Block("after", head, (after,))}
    return replace(graph(), **ends, tied=("words",) if tied else ())


@pytest.mark.parametrize(("sequence_parallel", "shares"), [(False, 4), (True, 1)])
def test_a_stage_hands_on_what_one_tensor_rank_has_of_its_output(sequence_parallel, shares) -> None:
    job = Job(data=2, tensor=4, pipeline=2, global_batch=4, precision="fp32", sequence_parallel=sequence_parallel)
    cluster = cluster_for(GPU, 16, 8)
    prepared = prepare(graph(), job, cluster)
    assert prepared.sends == (point_to_point_seconds(cluster, 2048 * 1024 * 4 / shares, 8, 2), 0.0)


def test_tied_embeddings_are_summed_over_both_ends_of_a_pipeline() -> None:
    job = Job(data=2, tensor=2, pipeline=4, global_batch=8, precision="fp32")
    cluster = cluster_for(GPU, 16, 8)
    once = all_reduce_seconds(cluster, WORDS.bytes, 2, 12)
    for network in (1.0, 0.5):
        tied, untied = (run(job, with_ends(tied), replace(IDEAL, network=network), cluster=cluster) for tied in (True, False))
        assert tied.data_parallel - untied.data_parallel == pytest.approx(once / network)
    near = Job(pipeline=2, global_batch=2, precision="fp32")
    assert run(near, with_ends(True), replace(IDEAL, network=1e-3, node_link=0.5)).data_parallel == pytest.approx(
        2 * all_reduce_seconds(cluster_for(GPU, 2), WORDS.bytes, 2, 1)
    )
    assert run(Job(precision="fp32"), with_ends(True)).data_parallel == 0


def test_gradients_of_later_micro_batches_are_added_to_the_first() -> None:
    bandwidth = cluster_for(GPU, 1).gpu.memory_bandwidth
    job = Job(global_batch=4, precision="fp32")
    assert run(job, graph()).compute["elementwise"] == pytest.approx(3 * 3 * 4 * 1024 * 1024 * 4 / bandwidth)
    assert "elementwise" not in run(replace(job, global_batch=1), graph()).compute
    assert "elementwise" not in run(replace(job, fused_kernels=True), graph()).compute


def test_recomputation_leaves_the_ends_alone_and_selective_takes_the_core() -> None:
    layer = graph().blocks[0]
    core = product(2048, 1024, 1024, module="blocks.0.attention.core")
    one = replace(with_ends(False), blocks=(replace(layer, operators=(*layer.operators, core)),) * 4)
    again = {
        how: run(Job(precision="fp32", recomputation=how), one).compute.get("recomputation")
        for how in ("none", "selective", "full")
    }
    assert again == {"none": None, "selective": 4.0, "full": 8.0}
    selective = Job(precision="fp32", recomputation="selective")
    assert run(selective, one).notes == ()
    assert run(selective, graph()).notes == (
        "selective recomputation changes nothing: the model has no attention in a module core",
    )


def test_zero_scatters_gradients_and_gathers_weights_each_in_their_dtype() -> None:
    weight = Weight("weight", Tensor((1024, 1024), "bfloat16"), "float32")
    one = replace(graph(), blocks=(replace(graph().blocks[0], weights=(weight,)),) * 4)
    job, cluster = Job(data=8, global_batch=8, precision="bf16", zero=1), cluster_for(GPU, 8)
    count = 4 * 1024 * 1024
    assert run(job, one).data_parallel == pytest.approx(
        reduce_scatter_seconds(cluster, 4 * count, 8) + all_gather_seconds(cluster, 2 * count, 8)
    )
    scaled = prepare(one, replace(job, precision="fp16"), cluster).update_bytes
    assert scaled == prepare(one, Job(precision="fp16"), cluster_for(GPU, 1)).update_bytes / 8 == 32 * count / 8


def test_each_group_reaches_the_speed_of_where_it_lies() -> None:
    job = Job(data=2, tensor=8, global_batch=2, precision="fp32")
    cluster = cluster_for(GPU, 16, 8)
    plain, slow_network, slow_node = (
        run(job, graph(exchanges=1), replace(IDEAL, **slower), cluster=cluster)
        for slower in ({}, {"network": 0.5}, {"node_link": 0.5})
    )
    assert slow_network.data_parallel == pytest.approx(2 * plain.data_parallel)
    assert slow_node.data_parallel == plain.data_parallel
    assert slow_node.tensor_parallel == pytest.approx(2 * plain.tensor_parallel)
    assert slow_network.tensor_parallel == plain.tensor_parallel


@pytest.mark.parametrize(
    ("name", "seconds", "sizes"),
    [("all_gather", all_gather_seconds, (512, 1024)), ("reduce_scatter", reduce_scatter_seconds, (1024, 512))],
)
def test_an_exchange_is_of_the_whole_of_which_a_rank_has_a_part(name, seconds, sizes) -> None:
    given, made = (Tensor((size, 1024), "float32") for size in sizes)
    exchange = Operator(f"epochcast.{name}", "communication", "forward", (given,), (made,))
    layer = graph().blocks[0]
    one = replace(graph(), blocks=(replace(layer, operators=(*layer.operators, exchange)),) * 4)
    answer = run(Job(tensor=2, precision="fp32"), one)
    assert answer.tensor_parallel == pytest.approx(4 * seconds(cluster_for(GPU, 2), 1024 * 1024 * 4, 2))


def test_the_slowest_rank_is_told_and_the_largest_reduction_waited_for() -> None:
    job, cluster = Job(data=2, pipeline=2, global_batch=8, precision="fp32"), cluster_for(GPU, 4)
    one = with_ends(False)
    heavy = replace(one, before=Block("before", ()))
    answer = run(job, heavy)
    assert answer.compute["matmul"] == pytest.approx(4 * (2 * 3 + 2))  # the last rank: two layers and the head
    assert answer.data_parallel == pytest.approx(all_reduce_seconds(cluster, WORDS.bytes + 2 * 1024 * 1024 * 4, 2))


def test_only_the_last_micro_batch_hides_the_reduction() -> None:
    once, often = (
        run(Job(data=8, global_batch=8 * count, precision="fp32", overlap=True), graph(width=4096), times=Each(1e-5))
        for count in (1, 4)
    )
    assert 0 < once.data_parallel == pytest.approx(often.data_parallel)
    cluster, gradients = cluster_for(GPU, 8), 4 * 4096 * 4096 * 4
    hidden = exposed_data_parallel(4 * 2 * 1e-5, gradients, lambda size: all_reduce_seconds(cluster, size, 8))
    assert once.data_parallel == pytest.approx(hidden)


def test_half_of_the_backward_products_hide_exchanges_of_the_tensor_ranks() -> None:
    once = all_reduce_seconds(cluster_for(GPU, 2), 2048 * 1024 * 4, 2)
    job = Job(tensor=2, precision="fp32", tensor_overlap=True)
    answer = run(job, graph(exchanges=2), times=Each(once / 4))
    assert answer.tensor_parallel == pytest.approx(4 * (2 * once + 2 * once - 2 * once / 4 / 2))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_pipeline_reduction_and_update_make_up_the_iteration(schedule) -> None:
    job = Job(data=2, pipeline=4, global_batch=16, precision="fp32", schedule=schedule, fused_kernels=True)
    prepared = prepare(graph(layers=8), job, cluster_for(GPU, 8))
    answer = iteration(prepared, Each(1e-5), IDEAL)
    pipeline = pipeline_seconds(stage_times(prepared, Each(1e-5), IDEAL), 4, 8, schedule)
    assert answer.pipeline_parallel > 1e-5
    assert answer.seconds == pytest.approx(pipeline + answer.data_parallel + answer.optimizer)
