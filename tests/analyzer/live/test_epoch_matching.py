"""Epochs found again are recognised."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochcast.analyzer.live.epoch_matching import same, superseded


@dataclass(frozen=True)
class Span:
    start: float
    end: float


def spans(*boundaries: float) -> list[Span]:
    return [Span(start, end) for start, end in pairwise(boundaries)]


@pytest.mark.parametrize(
    ("known", "found", "gone"),
    [
        (spans(0, 10, 20), spans(0, 10, 20), []),  # found again as they are
        (spans(0, 10, 20), spans(0.5, 10.5, 20), [0, 10]),
        (spans(0, 10), spans(10, 20), []),
        (spans(0, 10, 20), spans(0, 20), [0, 10]),  # two were one
        (spans(0, 20), spans(0, 10, 20), [0]),  # one was two
        (spans(0, 10), spans(-5, 5, 15), [0]),  # half of each: not both may stay
        (spans(0, 10), spans(6, 16), []),
        (spans(0, 10), [], []),
    ],
)
def test_which_known_epochs_go(known: list[Span], found: list[Span], gone: list[float]) -> None:
    assert superseded(known, found) == gone


def test_one_is_the_same_if_more_than_half_of_the_shorter_overlaps() -> None:
    assert same(Span(0, 10), Span(4.9, 100))
    assert not same(Span(0, 10), Span(5, 15))


@given(
    st.lists(st.floats(0.5, 30), min_size=1, max_size=8),
    st.lists(st.floats(0.5, 30), min_size=1, max_size=8),
    st.floats(-40, 40),
)
def test_what_stays_hardly_overlaps_what_comes(known_lengths: list[float], found_lengths: list[float], shift: float) -> None:
    def row(lengths: list[float], at: float) -> list[Span]:
        made = []
        for length in lengths:
            made.append(Span(at, at + length))
            at += length
        return made

    known, found = row(known_lengths, 0.0), row(found_lengths, shift)
    gone = superseded(known, found)
    for one in known:
        if one.start not in gone and one not in found:
            assert not any(same(one, other) for other in found)
