"""Which GPU for a workload seen on one? The questions that measured pairs can answer."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..pairs import Pair
from ..profile import Profile


@dataclass(frozen=True)
class Question:
    """One profile and the GPUs that its workload was measured on.

    Attributes:
        source: the profile; its own latency is known.
        gpus: candidates, shape (k,); the source's own comes first.
        rows: of every other candidate, the rows of its pairs; a GPU that was measured twice is one candidate.
    """

    source: Profile
    gpus: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]

    def seconds(self, on_targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds on each candidate, shape (k,), from those of all pairs, shape (n,); NaN where a pair of it has none."""
        return np.array([self.source.epoch_s, *(np.median(on_targets[list(rows)]) for rows in self.rows)], dtype=np.float64)


def questions(pairs: Sequence[Pair]) -> list[Question]:
    """Ask once for every source profile; pairs of one profile hold the same object."""
    by_source: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, pair in enumerate(pairs):
        by_source[id(pair.source)][pair.target_gpu.name].append(row)
    asked = []
    for rows in by_source.values():
        first = pairs[next(iter(rows.values()))[0]]
        asked.append(Question(first.source, (first.source_gpu.name, *rows), tuple(tuple(of) for of in rows.values())))
    return asked
