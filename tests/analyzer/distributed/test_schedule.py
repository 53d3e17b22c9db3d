"""Pipelines: schedules against a slow reference, closed forms, what is in flight; Algorithm 1's stages of a graph."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.backends.distributed.models.graph import Graph, ModelBlock, Operator, Tensor, Weight
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.plan.schedule import (
    StageTimes,
    assign_layers,
    in_flight,
    partition,
    passes_by_chunk,
    pipeline_seconds,
)
from epochcast.analyzer.errors import InputError

seconds = st.floats(0.05, 5.0)


@st.composite
def pipelines(draw: st.DrawFn, equal: bool = False) -> tuple[list[StageTimes], int, int, str]:
    """Chunks, ranks, micro-batches and schedule."""
    schedule, virtual = draw(st.sampled_from([("gpipe", 1), ("1f1b", 1), ("1f1b", 2), ("1f1b", 3)]))
    ranks = draw(st.integers(1 if virtual == 1 else 2, 4))
    micro_batches = draw(st.integers(1, 9)) if virtual == 1 else ranks * draw(st.integers(1, 3))
    count = ranks * virtual
    if equal:
        return [StageTimes(draw(seconds), draw(seconds))] * count, ranks, micro_batches, schedule
    sends = st.one_of(st.just(0.0), st.floats(0.0, 3.0))
    return [StageTimes(draw(seconds), draw(seconds), draw(sends)) for _ in range(count)], ranks, micro_batches, schedule


def plain_order(rank: int, ranks: int, micro_batches: int, schedule: str, virtual: int) -> list[tuple[str, int, int]]:
    """A rank's order written out from the papers: all passes in turn, the backward ones dealt in after the warm-up."""
    rounds = [range(start, min(start + ranks, micro_batches)) for start in range(0, micro_batches, ranks)]
    own = [turn * ranks + rank for turn in range(virtual)]
    forwards = [("F", chunk, batch) for batches in rounds for chunk in own for batch in batches]
    backwards = [("B", chunk, batch) for batches in rounds for chunk in reversed(own) for batch in batches]
    if schedule == "gpipe":
        return forwards + backwards
    warm_up = ranks - 1 - rank if virtual == 1 else 2 * (ranks - 1 - rank) + (virtual - 1) * ranks
    if virtual > 1 and micro_batches == ranks:
        warm_up = len(forwards)
    warm_up = min(warm_up, len(forwards))
    order = forwards[:warm_up]
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        order += [forward, backward]
    return order + backwards[len(forwards) - warm_up :]


def ended(chunks: list[StageTimes], ranks: int, micro_batches: int, schedule: str) -> float:
    """When the last pass ends: times are raised until nothing contradicts, pass by pass and transfer by transfer."""
    virtual, last = len(chunks) // ranks, len(chunks) - 1
    orders = [plain_order(rank, ranks, micro_batches, schedule, virtual) for rank in range(ranks)]
    end = {key: 0.0 for order in orders for key in order}
    arrived = dict.fromkeys(end, 0.0)
    changed = True
    while changed:
        changed = False
        for order in orders:
            free, link = 0.0, {"F": 0.0, "B": 0.0}
            for key in order:
                phase, chunk, batch = key
                if phase == "F":
                    given_at = arrived["F", chunk - 1, batch] if chunk else 0.0
                else:
                    given_at = end["F", last, batch] if chunk == last else arrived["B", chunk + 1, batch]
                free = max(free, given_at) + (chunks[chunk].forward if phase == "F" else chunks[chunk].backward)
                hop = chunk if phase == "F" else chunk - 1
                send = chunks[hop].send if 0 <= hop < last else 0.0  # the last chunk sends nothing on
                link[phase] = max(link[phase], free) + send if send else link[phase]
                there = link[phase] if send else free
                if (end[key], arrived[key]) != (free, there):
                    end[key], arrived[key], changed = free, there, True
    return max(end.values())


@settings(max_examples=150, deadline=None)
@given(pipelines(equal=True))
def test_the_closed_form_is_exact_for_equal_stages(pipeline: tuple[list[StageTimes], int, int, str]) -> None:
    chunks, ranks, micro_batches, schedule = pipeline
    virtual = len(chunks) // ranks
    expected = ended(*pipeline)
    assert pipeline_seconds(*pipeline) == pytest.approx(expected)
    if schedule == "1f1b":  # a bubble of (p - 1)/(v m) of the ideal time (Narayanan et al. 2021, section 2.2)
        assert expected == pytest.approx((micro_batches * virtual + ranks - 1) * (chunks[0].forward + chunks[0].backward))


@settings(max_examples=150, deadline=None)
@given(pipelines())
def test_the_closed_form_is_exact_for_gpipe_and_a_lower_bound_for_1f1b(
    pipeline: tuple[list[StageTimes], int, int, str],
) -> None:
    simulated, closed = ended(*pipeline), pipeline_seconds(*pipeline)
    if pipeline[-1] == "gpipe":
        assert closed == pytest.approx(simulated)
    assert closed <= simulated * (1 + 1e-9)


@given(pipelines())
def test_a_rank_holds_what_it_runs_forward_before_the_first_pass_back(
    pipeline: tuple[list[StageTimes], int, int, str],
) -> None:
    chunks, ranks, micro_batches, schedule = pipeline
    virtual = len(chunks) // ranks
    for rank in range(ranks):
        order = plain_order(rank, ranks, micro_batches, schedule, virtual)
        ahead = [chunk for phase, chunk, _ in order[: [phase for phase, *_ in order].index("B")]]
        held = in_flight(rank, ranks, micro_batches, schedule, virtual)
        assert held == len(ahead)
        assert passes_by_chunk(held, ranks, virtual) == [ahead.count(chunk) for chunk in range(rank, len(chunks), ranks)]


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
