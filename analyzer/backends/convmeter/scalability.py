"""What more devices and larger batches bring: throughput, epoch time, and where they stop paying (section 4.3).

All of it follows from the seconds of a step, predicted or measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError

LEAST_GAIN = 0.1
"""Doubling the devices pays if it raises throughput by this share or more; ideal is 1. Other counts in proportion."""

NEAR_HIGHEST = 0.95
"""A batch is large enough if its throughput is this share of the highest."""


def split_equally(global_batch: int, devices: Sequence[int]) -> list[int]:
    """Images of each device; raises InputError where some number of devices cannot share them equally."""
    if uneven := [count for count in devices if global_batch % count]:
        raise InputError(
            f"a global batch of {global_batch} cannot be split equally over {uneven[0]} devices; give a multiple, or leave "
            f"{uneven[0]} out"
        )
    return [global_batch // count for count in devices]


def points_of(
    metrics: pd.DataFrame, batches: Sequence[int], devices: Sequence[int], devices_per_node: int | None
) -> pd.DataFrame:
    """Points of one network (a row of :func:`.metrics.table_of`) with that many images on each of so many devices, in all nodes
    together; without ``devices_per_node`` one node holds all.
    """
    points = pd.concat([metrics] * len(devices), ignore_index=True)
    nodes = [1 if devices_per_node is None else -(-count // devices_per_node) for count in devices]
    return points.assign(batch=batches, devices=devices, nodes=nodes)


@dataclass(frozen=True)
class ScalingCurve:
    """Steps of one network, by devices or by batch in ascending order; all arrays of shape (n,).

    Attributes:
        batch: images per device and step (B of section 2).
        devices: in all nodes together (N).
        step_seconds: of a whole training step (T_iter).
    """

    batch: NDArray[np.float64]
    devices: NDArray[np.float64]
    step_seconds: NDArray[np.float64]

    @property
    def images_per_second(self) -> NDArray[np.float64]:
        """Throughput of all devices."""
        rates: NDArray[np.float64] = self.batch * self.devices / self.step_seconds
        return rates

    @property
    def speed_up(self) -> NDArray[np.float64]:
        """Throughput relative to that on the fewest devices."""
        rates = self.images_per_second
        relative: NDArray[np.float64] = rates / rates[0]
        return relative

    @property
    def efficiency(self) -> NDArray[np.float64]:
        """Throughput per device, against that of the fewest devices: 1 is ideal."""
        share: NDArray[np.float64] = self.speed_up * self.devices[0] / self.devices
        return share

    @property
    def turning_point(self) -> int | None:
        """Devices from which on more do not pay: no larger count has :data:`LEAST_GAIN` more throughput per doubling.

        A count that brings little by itself, as the second of a machine whose first device exchanges nothing, is passed where
        a larger one pays. None where even the last count pays.
        """
        for count, rate in zip(self.devices[:-1], self.images_per_second[:-1], strict=True):
            beyond = self.devices > count
            needed = rate * (1 + LEAST_GAIN) ** np.log2(self.devices[beyond] / count)
            if not (self.images_per_second[beyond] >= needed).any():
                return int(count)
        return None

    @property
    def fastest(self) -> int:
        """Devices of the highest throughput; the fewest of those with the same."""
        return int(self.devices[self.images_per_second.argmax()])

    @property
    def large_enough(self) -> int:
        """The smallest batch whose throughput is :data:`NEAR_HIGHEST` of the highest here, or more."""
        rates = self.images_per_second
        return int(self.batch[rates >= NEAR_HIGHEST * rates.max()].min())


@dataclass(frozen=True)
class CostPoints:
    """Numbers of devices to rent, among those with a known price.

    Attributes:
        cheapest: lowest cost per epoch.
        knee: lowest product of time and cost: beyond it a per cent of time saved costs more than a per cent of money.
    """

    cheapest: int
    knee: int


def cost_points(
    devices: NDArray[np.float64], epoch_seconds: NDArray[np.float64], usd: NDArray[np.float64]
) -> CostPoints | None:
    """Where time and cost meet, shape (n,) each; ``usd`` is NaN where no price is known, None if none is."""
    known = np.isfinite(usd)
    if not known.any():
        return None
    counts, seconds, cost = devices[known], epoch_seconds[known], usd[known]
    return CostPoints(cheapest=int(counts[cost.argmin()]), knee=int(counts[(seconds * cost).argmin()]))
