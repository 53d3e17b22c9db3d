"""What a recipe answers: the seconds of one iteration, what they are made of, and the memory of a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

EXCHANGES = ("tensor_parallel", "data_parallel", "pipeline_parallel")
"""Parts of an iteration that are communication."""


@dataclass(frozen=True)
class Memory:
    """Bytes on the fullest GPU of the job."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    capacity: float

    @property
    def total(self) -> float:
        """Bytes in all."""
        return self.weights + self.gradients + self.optimizer + self.activations

    @property
    def fits(self) -> bool:
        """Whether it fits into the GPU."""
        return self.total <= self.capacity


@dataclass(frozen=True)
class Iteration:
    """One training iteration (all micro-batches, gradient reduction, optimizer step).

    Attributes:
        seconds: the whole; equals the sum of all the parts below.
        compute: seconds by kind of operator on the slowest rank, recomputation apart under ``recomputation``.
        bubble: seconds in which that rank waits for others of its pipeline.
        tensor_parallel, data_parallel, pipeline_parallel: seconds of communication that computation does not hide.
        optimizer: seconds of the weight update, loss scaling included.
        memory: of the fullest GPU; None where the recipe does not say.
    """

    seconds: float
    compute: Mapping[str, float]
    bubble: float = 0.0
    tensor_parallel: float = 0.0
    data_parallel: float = 0.0
    pipeline_parallel: float = 0.0
    optimizer: float = 0.0
    memory: Memory | None = None
    notes: tuple[str, ...] = field(default=())
