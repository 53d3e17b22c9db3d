"""Memory of a GPU, against the papers' formulas."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from epochcast.analyzer.backends.distributed.answer import Memory
from epochcast.analyzer.backends.distributed.models.graph import Graph, ModelBlock, Operator, Tensor, Weight
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.plan.memory import memory_of, verdict
from epochcast.analyzer.backends.distributed.plan.schedule import partition

GIB = 2.0**30
S, B, H, A = 1024, 1, 512, 8  # sequence, micro-batch, hidden and heads of a layer in 16 bit
SBH = S * B * H
HIDDEN = Tensor((B, S, H), "bfloat16")
LAYER = SBH * (34 + 5 * A * S / H)  # Korthikanti et al. 2022, equation 1
CORE = SBH * 5 * A * S / H


def _layer(parameters: int = 1_000_000, dtype: str = "bfloat16") -> ModelBlock:
    weight = Weight("weight", Tensor((parameters,), dtype), dtype)
    product = Operator("aten.mm.default", "matmul", "backward", (HIDDEN, Tensor((H, H), "bfloat16")), (HIDDEN,))
    return ModelBlock("blocks.0", (product,), (weight,), LAYER, CORE, HIDDEN)


def _graph(layers: int, layer: ModelBlock | None = None, logits: float = 0.0) -> Graph:
    before = ModelBlock("before", (), (), 0.0, 0.0, HIDDEN)
    return Graph("model", "bf16", B, before, ((layer or _layer()),) * layers, ModelBlock("after", (), (), logits), ())


def _memory(job: TrainingConfiguration, graph: Graph) -> Memory:
    return memory_of(partition(graph, job), job, 80 * GIB)


WORKING = 2 * HIDDEN.bytes  # of the one backward operator: the gradient that it reads and the one that it makes


@pytest.mark.parametrize(
    ("dtype", "options", "per_parameter"),
    [
        ("float32", {"precision": "fp32"}, 16),  # 4 + 4 + 8
        ("float32", {"precision": "amp-bf16"}, 16),
        ("bfloat16", {"precision": "bf16"}, 16),  # 2 + 2 + 12, Rajbhandari et al. 2020, section 3.1
        ("bfloat16", {"precision": "bf16", "master_weights": False}, 8),
        ("float32", {"precision": "fp32", "optimizer": "sgd"}, 12),
        ("bfloat16", {"precision": "bf16", "optimizer": "sgd"}, 12),  # 2 + 2 + 4 + 4
        ("float32", {"precision": "fp32", "optimizer": "sgd", "master_weights": True}, 12),
        ("bfloat16", {"precision": "bf16", "data": 4, "global_batch": 4, "zero": 1}, 7),  # 2 + 2 + 12/4
        ("bfloat16", {"precision": "bf16", "data": 4, "global_batch": 4, "zero": 1, "master_weights": False}, 5),  # 2 + 2 + 4/4
    ],
)
def test_states_by_precision_and_optimizer(dtype: str, options: dict[str, object], per_parameter: float) -> None:
    memory = _memory(TrainingConfiguration(**options), _graph(4, _layer(dtype=dtype)))
    assert memory.weights + memory.gradients + memory.optimizer == per_parameter * 4_000_000


@pytest.mark.parametrize(
    ("zero", "weights", "gradients", "optimizer"),
    [
        (1, 2 * 4, 2 * 4, 12),
        (2, 2 * 4, 2 + 2, 12),  # the gradients of a block before they are scattered
        (3, 2 + 2 * 2, 2 + 2, 12),  # and the weights of the block that runs and of the next
    ],
)
def test_each_stage_of_zero_shards_one_thing_more(zero: int, weights: float, gradients: float, optimizer: float) -> None:
    """Bytes per million parameters of a block; four blocks over four ranks."""
    job = TrainingConfiguration(data=4, global_batch=4, precision="bf16", zero=zero)
    memory = _memory(job, _graph(4, _layer(1_000_000)))
    assert (memory.weights, memory.gradients, memory.optimizer) == (weights * 1e6, gradients * 1e6, optimizer * 1e6)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("pipeline", "micro_batches"), [(1, 4), (4, 8), (4, 2)])
def test_activations_of_the_micro_batches_in_flight(schedule: str, pipeline: int, micro_batches: int) -> None:
    """1F1B: the first of p stages holds p micro-batches of L/p layers, as many as one GPU of all layers holds of one."""
    job = TrainingConfiguration(pipeline=pipeline, global_batch=micro_batches, schedule=schedule)
    flying = micro_batches if schedule == "gpipe" else min(pipeline, micro_batches)
    assert _memory(job, _graph(16)).activations == flying * 16 / pipeline * LAYER + WORKING


@pytest.mark.parametrize(
    ("pipeline", "virtual", "micro_batches", "most"), [(4, 2, 8, 11), (4, 4, 4, 16), (2, 3, 8, 7), (8, 2, 16, 23)]
)
def test_interleaving_holds_what_its_schedule_runs(pipeline: int, virtual: int, micro_batches: int, most: int) -> None:
    """The most that is in flight at any time of the schedule."""
    job = TrainingConfiguration(pipeline=pipeline, virtual_stages=virtual, global_batch=micro_batches)
    stages = partition(_graph(2 * pipeline * virtual), job)
    assert memory_of(stages, job, 80 * GIB).activations == most * 2 * LAYER + WORKING
    if micro_batches > pipeline:  # Korthikanti et al. 2022, section 4.2.3: L layers' times 1 + (p - 1) / (p v)
        assert most == pipeline * virtual * (1 + (pipeline - 1) / (pipeline * virtual))


def test_recomputation_keeps_inputs_or_gives_up_the_attention_core() -> None:
    job, graph = TrainingConfiguration(pipeline=2, global_batch=4), _graph(8)
    selective = _memory(replace(job, recomputation="selective"), graph).activations
    assert selective == 8 * SBH * 34 + CORE + WORKING  # Korthikanti et al. 2022, equation 6; one core is back at a time
    full = _memory(replace(job, recomputation="full"), graph).activations
    assert full == 8 * SBH * 2 + LAYER + WORKING  # the same, section 5; one layer is back at a time


@pytest.mark.parametrize(
    ("parameters", "options", "message"),
    [
        (2_000_000_000, {}, r"each GPU needs 1\d\d\.. GiB \(weights 14.9, gradients 14.9, optimizer states 89.4"),
        (
            2_000_000_000,
            {"micro_batch": 2, "global_batch": 2},
            "take a smaller micro-batch or more tensor, context or pipeline ranks",
        ),
        (
            1_500_000_000,
            {"data": 8, "global_batch": 8},
            r"take --zero 3, more tensor, context or pipeline ranks \(it would still need 89.5 with full recomputation\)",
        ),
        (2_000_000_000, {"pipeline": 2, "global_batch": 2, "recomputation": "full"}, "more tensor, context or pipeline ranks"),
    ],
)
def test_out_of_memory_says_how_much_of_what_and_what_would_help(
    parameters: int, options: dict[str, object], message: str
) -> None:
    job = TrainingConfiguration(precision="bf16", **options)
    said = verdict(partition(_graph(4 * job.pipeline, _layer(parameters)), job), job, 80 * GIB)
    assert said.startswith("out of memory") and "\n" not in said
    assert re.search(message, said)


@pytest.mark.parametrize(("tensor", "sequence_parallel"), [(1, False), (2, False), (2, True)])
def test_a_traced_layer_keeps_what_korthikanti_counts(tensor: int, sequence_parallel: bool) -> None:
    """Korthikanti et al. 2022, table 2, in bytes per s b h; torch keeps the causal mask besides, and gathered inputs whole."""
    pytest.importorskip("torch")
    from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs

    length = 256
    job = TrainingConfiguration(
        tensor=tensor,
        sequence_parallel=sequence_parallel,
        micro_batch=2,
        global_batch=2,
        sequence_length=length,
        precision="bf16",
        attention="eager",
    )
    block = ModelGraphs.of("gpt2").graph(job).blocks[0]
    hidden, heads = 768, 12
    sbh = length * 2 * hidden
    scores = 5 * heads * length / hidden
    shared = 10 / tensor + 2 * 2 * (1 - 1 / tensor) if sequence_parallel else 10
    mask = length * length
    assert block.core_saved_bytes == pytest.approx(sbh * scores / tensor + mask, rel=1e-3)
    assert block.saved_bytes == pytest.approx(sbh * (shared + (24 + scores) / tensor) + mask, rel=1e-3)


def test_measured_runs_fit_with_recomputation_and_most_would_not_without(shared_data: Path) -> None:
    """vTrain's runs of Megatron-LM on A100 80 GB: those of the largest micro-batch of each model and tensor degree."""
    pytest.importorskip("torch")
    from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs

    table = pd.read_csv(shared_data / "distributed" / "vtrain_multi_node.csv")
    fits: dict[str, list[bool]] = {"full": [], "none": []}
    for (hidden, tensor), rows in table.groupby(["hidden size", "tensor parallelism"]):
        row = rows.loc[rows["micro batch"].idxmax()].astype(int)
        micro_batch, layers = row["micro batch"], row["# layers"]
        name = f"gpt:hidden={hidden},layers={layers},heads={row['attention heads']},vocab=51200,positions=2048"
        graphs = ModelGraphs.of(f"{name},embd_pdrop=0.1,resid_pdrop=0.1,attn_pdrop=0.1")
        for recomputation, found in fits.items():
            job = TrainingConfiguration(
                data=row["data parallelism"],
                tensor=tensor,
                pipeline=row["pipeline parallelism"],
                micro_batch=micro_batch,
                global_batch=row["global batch"],
                precision="fp16",
                recomputation=recomputation,
                attention="eager",
                sequence_length=row["sequence length"],
            )
            graph = graphs.graph(job)
            found.append(memory_of(partition(graph, job), job, 80 * GIB).fits)
    assert all(fits["full"])
    assert sum(fits["none"]) < len(fits["none"]) / 2
