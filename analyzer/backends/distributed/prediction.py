"""What a recipe answers: the seconds of one iteration, what they are made of, and the memory of a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from epochcast.analyzer.plugins.answer import AnswerPart

EXCHANGES = ("tensor_parallel", "data_parallel", "pipeline_parallel")
"""Parts of an iteration that are communication."""


class Memory(AnswerPart):
    """Bytes on the fullest GPU."""

    weights: Annotated[float, Field(title="weights")]
    gradients: Annotated[float, Field(title="gradients")]
    optimizer: Annotated[float, Field(title="optimizer states")]
    activations: Annotated[float, Field(title="activations")]
    total: Annotated[float, Field(title="in all")]
    capacity: Annotated[float, Field(title="available")]
    fits: bool

    @classmethod
    def of(cls, capacity: float, **parts: float) -> Memory:
        """Add up the parts (``weights``, ``gradients``, ``optimizer``, ``activations``) and compare them with the capacity."""
        total = sum(parts.values())
        return cls(**parts, total=total, capacity=capacity, fits=total <= capacity)


@dataclass(frozen=True)
class Iteration:
    """One training iteration (all micro-batches, gradient reduction, optimizer step).

    Attributes:
        seconds: the whole; equals the sum of its parts, which :class:`.answer.Parts` describes.
        within_passes: the part of ``data_parallel`` that lengthens forward and backward passes (FSDP).
        memory: of the fullest GPU; None where the recipe does not say.
    """

    seconds: float
    compute: Mapping[str, float]
    bubble: float = 0.0
    tensor_parallel: float = 0.0
    data_parallel: float = 0.0
    pipeline_parallel: float = 0.0
    optimizer: float = 0.0
    within_passes: float = 0.0
    memory: Memory | None = None
    notes: tuple[str, ...] = field(default=())
