"""FSDP and context parallelism: what is exchanged, what computing hides, and what each rank computes."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.communication.cluster import (
    all_gather_seconds,
    cluster_for,
    reduce_scatter_seconds,
)
from epochcast.analyzer.backends.distributed.iteration import exposed_sharding, iteration, prepare
from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.predictor import IterationPredictor
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.rivals.distributed.roofline import IDEAL

GPT = "gpt:hidden=128,layers=4,heads=4,vocab=512"
JOB = TrainingConfiguration(data=8, global_batch=8, sequence_length=128, precision="amp-bf16", zero=3)


class Nothing:
    """Operators that take no time hide nothing."""

    def seconds(self, operators):
        return np.zeros(len(operators))


@pytest.fixture(scope="module")
def graphs() -> ModelGraphs:
    return ModelGraphs.of(GPT)


def test_only_what_computing_does_not_cover_is_exposed() -> None:
    passes = [(2.0, 4.0)] * 3
    assert exposed_sharding(passes, [(1.0, 1.0)] * 3) == (1.0, 1.0)  # the first gather and the last scatter
    assert exposed_sharding(passes, [(3.0, 3.0)] * 3) == (3.0 + 2 * 1.0, 3.0 + 2.0)  # the middle has both beside it
    assert exposed_sharding(passes, [(0.0, 0.0)] * 3) == (0.0, 0.0)


def test_fsdp_gathers_weights_twice_and_scatters_gradients_once_in_16_bits(graphs: ModelGraphs) -> None:
    cluster = cluster_for("A100 SXM4 80GB", 8)
    graph = graphs.graph(JOB)
    assert {operator.dtype for operator in graph.blocks[0].operators if operator.flops} == {"bfloat16"}
    assert not any("_to_copy" in operator.name for operator in graph.blocks[0].operators), "FSDP casts the parameters itself"
    found = iteration(prepare(graph, JOB, cluster), Nothing(), IDEAL)
    size = [2 * sum(weight.tensor.elements for weight in block.weights) for block in (graph.before, *graph.blocks)]
    gathers = 2 * sum(all_gather_seconds(cluster, each, 8) for each in size)
    scatters = sum(reduce_scatter_seconds(cluster, each, 8) for each in size)
    assert found.parts.data_parallel == pytest.approx(gathers + scatters, rel=0.25)  # the ends are gathered once, and tied
    accumulated = iteration(prepare(graph, replace(JOB, global_batch=32), cluster), Nothing(), IDEAL)
    assert accumulated.parts.data_parallel == pytest.approx(4 * found.parts.data_parallel), "every micro-batch exchanges"


def test_context_ranks_share_the_sequence_and_gather_keys_and_values(graphs: ModelGraphs) -> None:
    whole, part = (graphs.graph(replace(JOB, context=ranks)).blocks[0] for ranks in (1, 2))
    flops = [
        {kind: sum(operator.flops for operator in block.operators if operator.kind == kind) for kind in ("matmul", "attention")}
        for block in (whole, part)
    ]
    assert flops[1] == {kind: pytest.approx(each / 2) for kind, each in flops[0].items()}
    names = [operator.name for operator in part.operators if operator.kind == "communication"]
    assert names == ["epochcast.context_gather"] * 4 + ["epochcast.context_scatter"] * 2
    job = replace(JOB, context=2, data=4, global_batch=4)
    prepared = prepare(graphs.graph(job), job, cluster_for("A100 SXM4 80GB", 8))
    assert job.gpus == 8 and job.shards == 8
    assert iteration(prepared, Nothing(), IDEAL).parts.tensor_parallel > 0
    exchanged = [operator for operator in part.operators if operator.kind == "communication"]
    grouped = ModelGraphs.of("llama:hidden=128,layers=2,heads=8,kv_heads=2,vocab=512").graph(replace(JOB, context=2)).blocks[0]
    fewer = [operator for operator in grouped.operators if operator.kind == "communication"]
    assert [each.outputs[0].shape[1] for each in (exchanged[0], fewer[0])] == [4, 2], "each key and value head once"
    with pytest.raises(InputError, match="use 1 context rank"):
        ModelGraphs.of("ViT-B/16").graph(replace(JOB, context=2))
    with pytest.raises(InputError, match="no fused attention"):
        graphs.graph(replace(JOB, context=2, attention="eager"))


def test_the_fastest_stage_that_fits_is_taken_and_said() -> None:
    predictor = IterationPredictor(ModelGraphs.of(GPT))
    gpu = load_catalog()["A100 SXM4 80GB"]
    best = predictor.sharded(gpu, replace(JOB, zero=0))
    seconds = [predictor.iteration(gpu, replace(JOB, zero=zero)).seconds for zero in (0, 1, 2, 3)]
    assert seconds[best.zero] == min(seconds)


def test_torch_recomputes_only_up_to_what_backward_reads(graphs: ModelGraphs) -> None:
    block = graphs.graph(replace(JOB, precision="bf16", zero=0)).blocks[0]
    last = [operator for operator in block.forward if operator.kind == "matmul"][-1]
    assert len(block.again) < len(block.forward)
    assert last not in block.again, "its input is kept, its answer is not"
