"""How much memory a training step takes on each device, as a range: from counted metrics no more can be told honestly.

What the forward pass keeps for the backward pass is a share of what it reads and writes. Counted with torch's saved tensors
on 68 torchvision networks (`benchmarks/convmeter/memory.py`) the share lies between 0.26 and 0.49 of the elements, by how
many layers work in place and which of them keep their inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..distributed.memory import CONTEXT_BYTES, FRAGMENTED
from .metrics import KINDS
from .points import CHANNELS_LAST

KEPT = (0.25, 0.5)
"""Least and most elements kept for the backward pass per element of activations read or written."""

# Bytes of an element kept (least, most: autocast mixes both) and of a weight with its gradient and Adam's two moments.
_BYTES = {
    "fp64": ((8, 8), 32),
    "fp32": ((4, 4), 16),
    "tf32": ((4, 4), 16),
    "fp16": ((2, 2), 8),
    "bf16": ((2, 2), 8),
    "amp-fp16": ((2, 4), 18),
    "amp-bf16": ((2, 4), 18),
}


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes on one device.

    Attributes:
        low, high: of weights, gradients, Adam's states and what is kept of the forward pass; workspaces are not in it.
        capacity: what is left to the training; None where the device's memory is not known.
    """

    low: float
    high: float
    capacity: float | None

    @property
    def fits(self) -> bool | None:
        """True or False where it is certain by this estimate, None in between and where the memory is not known."""
        if self.capacity is None or self.low <= self.capacity < self.high:
            return None
        return self.high <= self.capacity


def training_memory(
    values: Mapping[str, float], batch: float, precision: str, device_bytes: float | None
) -> TrainingMemory | None:
    """Estimate the memory of a training step with Adam.

    Args:
        values: metrics at batch 1, by name (:mod:`.metrics`).
        batch: images per device and step.
        precision: name; None is answered where it is not known how many bytes its numbers have.
        device_bytes: memory of the device; None where it is not known.
    """
    if (numbers := precision.removesuffix(CHANNELS_LAST)) not in _BYTES:
        return None
    (least, most), of_weight = _BYTES[numbers]
    states = of_weight * values["weights"]
    moved = batch * sum(values[f"{kind}_traffic"] for kind in KINDS)
    return TrainingMemory(
        low=states + KEPT[0] * least * moved,
        high=states + KEPT[1] * most * moved,
        capacity=None if device_bytes is None else device_bytes * (1 - FRAGMENTED) - CONTEXT_BYTES,
    )
