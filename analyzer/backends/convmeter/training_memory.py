"""How much memory a training step takes on each device, as a range: counted metrics allow no more than that.

The forward pass keeps a share of what it reads and writes for the backward pass. Counted with torch's saved tensors
on 68 torchvision networks (`lab/speed/convmeter/memory.py`) the share is between 0.26 and 0.49 of the elements, by how
many layers work in place and which of them keep their inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from epochcast.analyzer.backends.convmeter.metrics import CHANNELS_LAST, KINDS
from epochcast.analyzer.backends.distributed.plan.memory import CONTEXT_BYTES, FRAGMENTED
from epochcast.analyzer.plugins.answer import AnswerPart
from epochcast.analyzer.words import number

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


_FITS = {True: "fits", False: "does not fit", None: "may fit"}


class TrainingMemory(AnswerPart):
    """Bytes of a training step on one device, as a range."""

    # Of weights, gradients, Adam's states and what is kept of the forward pass; workspaces are not in it.
    low: float
    high: float
    capacity: Annotated[float | None, Field(description="Memory available to the training; null if unknown.")]
    fits: Annotated[bool | None, Field(description="Null if uncertain.")]

    @property
    def text(self) -> str:
        """The range, and whether it fits."""
        unit, name = (2.0**30, "GiB") if self.high >= 1000 * 2.0**20 else (2.0**20, "MiB")
        size = f"{number(self.low / unit)} to {number(self.high / unit)} {name}"
        return size if self.capacity is None else f"{size}, {_FITS[self.fits]}"


def training_memory(
    values: Mapping[str, float], batch: float, precision: str, device_bytes: float | None
) -> TrainingMemory | None:
    """Estimate the memory of a training step with Adam.

    Args:
        values: metrics at batch 1, by name (:mod:`.metrics`).
        batch: images per device and step.
        precision: name; the answer is None where the bytes of its numbers are unknown.
        device_bytes: memory of the device; None where it is unknown.
    """
    if (numbers := precision.removesuffix(CHANNELS_LAST)) not in _BYTES:
        return None
    (least, most), of_weight = _BYTES[numbers]
    states = of_weight * values["weights"]
    moved = batch * sum(values[f"{kind}_traffic"] for kind in KINDS)
    low, high = states + KEPT[0] * least * moved, states + KEPT[1] * most * moved
    capacity = None if device_bytes is None else device_bytes * (1 - FRAGMENTED) - CONTEXT_BYTES
    fits = None if capacity is None or low <= capacity < high else high <= capacity
    return TrainingMemory(low=low, high=high, capacity=capacity, fits=fits)
