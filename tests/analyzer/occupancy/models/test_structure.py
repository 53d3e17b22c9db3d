"""Hops between operators, against a plain breadth-first search."""

from collections import deque
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.configuration import Sample
from epochcast.analyzer.backends.occupancy.models.structure import FAR, FARTHEST, MOST_EDGES, structure_of

MadeSample = Callable[..., Sample]


def naive_hops(n: int, arrows: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    hops = {}
    for start in range(n):
        hops[start, start] = 0
        waiting = deque([start])
        while waiting:
            here = waiting.popleft()
            for source, target in arrows:
                if source == here and (start, target) not in hops:
                    hops[start, target] = hops[start, here] + 1
                    waiting.append(target)
    return hops


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(0, 1000))
def test_relations_are_hops_forward_or_backward(made_sample: MadeSample, n: int, seed: int) -> None:
    graph = made_sample(n, seed).graph
    structure = structure_of(graph)
    arrows = [(int(source), int(target)) for source, target in graph.edges.T]
    hops = naive_hops(n, arrows)
    for i in range(n):
        for j in range(n):
            forward, backward = hops.get((i, j), FAR), hops.get((j, i), FAR)
            expected = FAR
            if forward <= FARTHEST:
                expected = forward
            elif backward <= FARTHEST:
                expected = FARTHEST + backward
            assert structure.relations[i, j] == expected
    assert structure.edges_in.tolist() == [min(MOST_EDGES, sum(target == i for _, target in arrows)) for i in range(n)]
    assert structure.edges_out.tolist() == [min(MOST_EDGES, sum(source == i for source, _ in arrows)) for i in range(n)]
