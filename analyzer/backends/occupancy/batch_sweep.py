"""The batch size from which on a larger one fills the GPU no better (section VI-A of the DNN-occu paper)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

WITHIN = 0.05
"""How far below the best, relative, still counts as as good: predictions are not closer, and curves are flat at their end."""

LARGEST = 4096
"""Batches beyond it are not tried: there the GPU's memory does not bound them."""


@dataclass(frozen=True)
class SweepResult:
    """What a sweep found.

    Attributes:
        highest: the best occupancy, ratio 0..1.
        highest_at: the smallest batch that has it.
        smallest: the smallest batch within WITHIN of it.
        largest: the largest batch that was tried.
    """

    highest: float
    highest_at: int
    smallest: int
    largest: int


def best_batch(batches: NDArray[np.int_], occupancies: NDArray[np.float64]) -> SweepResult:
    """Look through occupancies, shape (n,), of batches in ascending order, shape (n,)."""
    best = float(occupancies.max())
    smallest = batches[occupancies >= best * (1 - WITHIN)][0]
    return SweepResult(best, int(batches[occupancies.argmax()]), int(smallest), int(batches[-1]))


def batches_that_fit(memory_of: Callable[[int], float], capacity: float) -> list[int]:
    """Powers of two from 1 on whose memory, bytes by batch and growing with it, is within the capacity; none if 1 is beyond."""
    powers = (2**exponent for exponent in range(LARGEST.bit_length()))
    return list(takewhile(lambda batch: memory_of(batch) <= capacity, powers))
