"""Pipeline schedules: against a slow reference, closed forms, what is in flight."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.backends.distributed.plan.schedule import (
    StageTimes,
    in_flight,
    passes_by_chunk,
    pipeline_seconds,
)

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
    if schedule == "1f1b":
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


@pytest.mark.parametrize(("schedule", "virtual"), [("1f1b", 1), ("gpipe", 1), ("1f1b", 2)])
def test_the_bubble_is_that_of_the_papers(schedule: str, virtual: int) -> None:
    """(p - 1)/m of the ideal time, and (p - 1)/(v m) interleaved (Narayanan et al. 2021, section 2.2)."""
    ranks, micro_batches = 4, 8
    seconds = pipeline_seconds([StageTimes(1.0, 2.0)] * ranks * virtual, ranks, micro_batches, schedule)
    assert seconds / (3.0 * virtual * micro_batches) - 1 == pytest.approx((ranks - 1) / (virtual * micro_batches))
