"""What more devices and larger batches bring: a step on several GPUs, and where they stop paying (section 4.3).

A step on N GPUs takes the step of one, what DistributedDataParallel's exchange of gradients adds to its backward pass, by
all-reduces as measured or as the links give them, and a share of the step that the hosts of several GPUs cost::

    step(N) = step(1) · (1 + HOST_SHARE · 2(N − 1)/N) + exposed all-reduce

How much memory a training step takes on each device is a range: counted metrics allow no more than that. The forward pass keeps
a share of what it reads and writes for the backward pass. Counted with torch's saved tensors on 68 torchvision networks
(`lab/speed/convmeter/memory.py`) the share is between 0.26 and 0.49 of the elements, by how many layers work in place and which
of them keep their inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from epochcast.analyzer.backends.convmeter.metrics import CHANNELS_LAST, KINDS
from epochcast.analyzer.backends.distributed.communication.cluster import Cluster, all_reduce_seconds
from epochcast.analyzer.backends.distributed.iteration import exposed_data_parallel
from epochcast.analyzer.backends.distributed.plan.memory import CONTEXT_BYTES, FRAGMENTED
from epochcast.analyzer.plugins.answer import AnswerPart
from epochcast.analyzer.words import number

Array = NDArray[np.float64]

HOST_SHARE = 0.0367
"""Fitted on 100 public speed-ups of 15 training jobs of ConvNets from one GPU to 2, 4 and 8 of the same machine
(`python -m lab.speed.convmeter.scaling`); jobs left out, they are 7.5 % off, half of them less than 3.9 %."""

HALF_WIDTH = 0.139
"""Log of the factor that holds nine of ten of these, each by a fit without its job."""

BACKWARD_SHARE = 2 / 3
"""Of a step, where the backward pass was not measured: it has two products for each of the forward pass."""

LEAST_GAIN = 0.1
"""Doubling the devices pays if it raises throughput by this share or more; ideal is 1. Other counts in proportion."""

NEAR_HIGHEST = 0.95
"""A batch is large enough if its throughput is this share of the highest."""


def on_several(step: Array, backward: float, gradient_bytes: float, cluster: Cluster, devices: int) -> tuple[Array, Array]:
    """A step on several GPUs, and what it takes more than on one; each seconds and the ends of their interval, shape (3,).

    Between nodes the interval also holds a network that hides nothing of the exchange: no public table of ConvNets has several.

    Args:
        step: on one GPU, seconds and the ends of the interval, shape (3,).
        backward: seconds of its backward pass.
        gradient_bytes: of all weights.
        cluster: where it runs.
        devices: of all nodes together.
    """

    def reduce(nbytes: float) -> float:
        return all_reduce_seconds(cluster, nbytes, devices)

    exposed = exposed_data_parallel(backward, gradient_bytes, reduce, overlap=True)
    more = HOST_SHARE * 2 * (devices - 1) / devices * step[0] + exposed
    seconds = step[0] + more
    widths = [np.log(step[2] / step[0]), HALF_WIDTH]
    if devices > cluster.gpus_per_node:
        widths.append(np.log((seconds - exposed + reduce(gradient_bytes)) / seconds))
    ends = np.exp(np.sqrt(np.square(widths).sum()) * np.array([0.0, -1.0, 1.0]))
    apart = HALF_WIDTH if len(widths) < 3 else np.hypot(*widths[1:])
    # Of the difference: as far as the step moves by what several GPUs do, and not below nothing.
    moved = np.maximum(more + seconds * (np.exp(apart * np.array([0.0, -1.0, 1.0])) - 1), 0.0)
    return seconds * ends, moved


def turning_point(devices: NDArray[np.int_], rates: Array) -> int | None:
    """Devices from which on more do not pay: no larger count has :data:`LEAST_GAIN` more throughput per doubling.

    A count that brings little by itself, as the second of a machine whose first device exchanges nothing, is passed where
    a larger one pays. None where even the last count pays.

    Args:
        devices: ascending, shape (n,).
        rates: images per second of all devices, shape (n,).
    """
    for count, rate in zip(devices[:-1], rates[:-1], strict=True):
        beyond = devices > count
        if not (rates[beyond] >= rate * (1 + LEAST_GAIN) ** np.log2(devices[beyond] / count)).any():
            return int(count)
    return None


def large_enough(batches: NDArray[np.int_], rates: Array) -> int:
    """The smallest batch whose throughput is :data:`NEAR_HIGHEST` of the highest, or more; shapes (n,)."""
    return int(batches[rates >= NEAR_HIGHEST * rates.max()].min())


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
