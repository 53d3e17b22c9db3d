"""Algorithm 1: stages of a graph, and the GPUs that run them."""

import pytest

from epochcast.analyzer.backends.distributed.models.graph import Graph, ModelBlock, Operator, Tensor, Weight
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.plan.schedule import assign_layers, partition
from epochcast.analyzer.errors import InputError

HIDDEN = Tensor((2, 4), "bfloat16")


def _weight(name: str, elements: int, *, sliced: bool = False, gradient: str = "float32") -> Weight:
    return Weight(name, Tensor((elements,), "bfloat16"), gradient, sliced=sliced)


def _block(name: str, *weights: Weight) -> ModelBlock:
    add = Operator("aten.add.Tensor", "elementwise", "forward", (HIDDEN, HIDDEN), (HIDDEN,), module=name)
    return ModelBlock(name, (add,), weights, output=HIDDEN)


def _graph(layers: int, *, tied: bool = True) -> Graph:
    words = _weight("words", 1000, sliced=True)
    one = _block("blocks.0", _weight("norm", 3), _weight("up", 50, sliced=True, gradient="bfloat16"))
    return Graph(
        model="model",
        precision="bf16",
        micro_batch=2,
        before=_block("before", words),
        blocks=(one,) * layers,
        after=_block("after", _weight("last", 7), words if tied else _weight("head", 1000)),
        tied=("words",) if tied else (),
    )


def test_chunks_hold_all_blocks_in_order_and_run_on_ranks_in_turn() -> None:
    graph = _graph(5)
    stages = partition(graph, TrainingConfiguration(pipeline=2, virtual_stages=2, global_batch=2))
    assert [(stage.rank, stage.chunk) for stage in stages] == [(0, 0), (1, 1), (0, 2), (1, 3)]
    assert [len(stage.blocks) for stage in stages] == [3, 1, 1, 2]
    assert [block for stage in stages for block in stage.blocks] == [graph.before, *graph.blocks, graph.after]
    assert [stage.received for stage in stages] == [None, HIDDEN, HIDDEN, HIDDEN]
    assert sum(len(block.operators) for stage in stages for block in stage.blocks) == 7


def test_one_chunk_holds_the_whole_model_and_its_tied_weight_once() -> None:
    graph = _graph(4)
    (stage,) = partition(graph, TrainingConfiguration())
    assert graph.parameters() == 1000 + 4 * 53 + 7
    assert stage.weight_bytes == 2 * graph.parameters()
    assert stage.gradient_bytes == 4 * (1000 + 4 * 3 + 7) + 2 * 4 * 50


def test_a_pipeline_holds_a_tied_weight_at_both_ends() -> None:
    first, last = partition(_graph(4), TrainingConfiguration(pipeline=2))
    assert (first.weight_bytes, last.weight_bytes) == (2 * (1000 + 2 * 53), 2 * (1000 + 2 * 53 + 7))
    untied = partition(_graph(4, tied=False), TrainingConfiguration(pipeline=2))
    assert sum(stage.weight_bytes for stage in untied) == 2 * _graph(4, tied=False).parameters()


def test_stages_hold_the_layers_that_are_given() -> None:
    stages = partition(_graph(4), TrainingConfiguration(pipeline=2, layers_per_stage=(3, 1)))
    assert [len(stage.blocks) for stage in stages] == [4, 2]


@pytest.mark.parametrize(
    ("layers", "pipeline", "virtual", "sizes"),
    [(32, 1, 1, [32]), (32, 4, 1, [8] * 4), (10, 4, 1, [3, 3, 2, 2]), (12, 2, 3, [2] * 6), (7, 2, 3, [2, 1, 1, 1, 1, 1])],
)
def test_balanced_chunks_differ_by_one_at_most_and_the_first_are_the_longer(
    layers: int, pipeline: int, virtual: int, sizes: list[int]
) -> None:
    chunks = assign_layers(layers, pipeline, virtual)
    assert [len(chunk) for chunk in chunks] == sizes
    assert [layer for chunk in chunks for layer in chunk] == list(range(layers))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 8), "4 layers cannot fill 8 pipeline ranks; use 4 chunks or fewer"),
        ((6, 2, 4), "6 layers cannot fill 2 pipeline ranks x 4 virtual stages; use 6 chunks or fewer"),
        ((0, 2), "0 layers cannot fill 2 pipeline ranks; use 1 chunks or fewer"),
        ((10, 2, 1, (4, 4, 2)), r"given for 3 stages \(4, 4, 2\) of 2"),
        ((10, 2, 1, (4, 5)), r"\(4, 5\) sum to 9; give 10"),
        ((10, 3, 1, (5, 0, 5)), "one or more to each"),
    ],
)
def test_what_does_not_suit_is_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        assign_layers(*arguments)
