"""Layers of a pipeline's chunks."""

import pytest

from epochcast.analyzer.backends.distributed.partition import assign_layers
from epochcast.analyzer.errors import InputError


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


def test_given_layers_are_kept() -> None:
    assert assign_layers(10, 3, given=(4, 4, 2)) == (range(4), range(4, 8), range(8, 10))


def test_a_model_without_repeated_layers_runs_as_one_chunk() -> None:
    assert assign_layers(0, 1) == (range(0),)
    assert assign_layers(0, 1, given=(0,)) == (range(0),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 8), "4 layers cannot fill 8 pipeline ranks; take 4 chunks or fewer"),
        ((6, 2, 4), "6 layers cannot fill 2 pipeline ranks x 4 virtual stages; take 6 chunks or fewer"),
        ((0, 2), "0 layers cannot fill 2 pipeline ranks; take 1 chunks or fewer"),
        ((10, 2, 1, (4, 4, 2)), r"given for 3 stages \(4, 4, 2\) of 2"),
        ((10, 2, 1, (4, 5)), r"\(4, 5\) sum to 9; give 10"),
        ((10, 3, 1, (5, 0, 5)), "one or more to each"),
    ],
)
def test_what_does_not_suit_is_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        assign_layers(*arguments)
