"""What more devices and larger batches bring: a step on several GPUs, and where they stop paying (section 4.3).

A step on N GPUs takes the step of one, what DistributedDataParallel's exchange of gradients adds to its backward pass, by
all-reduces as measured or as the links give them, and a share of the step that the hosts of several GPUs cost::

    step(N) = step(1) · (1 + HOST_SHARE · 2(N − 1)/N) + exposed all-reduce
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.communication.cluster import Cluster
from epochcast.analyzer.backends.distributed.communication.collectives import all_reduce_seconds
from epochcast.analyzer.backends.distributed.iteration import exposed_data_parallel

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
