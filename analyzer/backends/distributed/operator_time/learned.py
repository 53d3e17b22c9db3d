"""Operator times of any GPU of the catalogue, learned from operators measured on others.

An operator takes ``max(c · compute, m · traffic) · exp(g(x))``: the ideal seconds at a GPU's full speed, two rates of the GPU,
and boosted trees over scale-free properties by which real kernels fall short of it, shared by all GPUs. What measuring adds to
every operator (the host's dispatch to an idle GPU) is fitted next to them and left out of the answer: in training, launches
are queued ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.models.graph import Operator
from epochcast.analyzer.backends.distributed.operator_time.shapes import PRODUCTS, places_by, shapes_of
from epochcast.analyzer.backends.distributed.plan.job import Precision, peak_flops
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Gpu
from epochcast.regressor.trees import Trees

# Output tiles of matrix product kernels and the share of the peak that one reaches: smaller tiles read their operands more
# often. A first guess of ours, which the boosted trees correct.
_TILES = ((256, 128, 1.0), (128, 128, 1.0), (128, 64, 0.95), (64, 64, 0.85), (64, 32, 0.65), (32, 32, 0.5))

_WIDEST_ALIGNMENT = 32


@dataclass(frozen=True)
class Ideal:
    """Seconds at full speed, arrays of shape (n,).

    Attributes:
        compute: the best tiling's whole waves at the peak of the dtype; 0 where nothing is multiplied.
        plain: FLOPs over the peak, without tiles and waves.
        traffic: bytes over the bandwidth.
        waves: tiles of 128 x 128 per processor.
    """

    compute: NDArray[np.float64]
    plain: NDArray[np.float64]
    traffic: NDArray[np.float64]
    waves: NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """How many times longer than the ideal a GPU takes in one family of operators and one dtype.

    Attributes:
        compute, memory: log of measured over ideal seconds where the one or the other bounds it.
        dispatch: log of the seconds that measuring adds to every operator: the host's way to a kernel on an idle GPU.
    """

    compute: float
    memory: float
    dispatch: float

    def bound(self, ideal: Ideal) -> NDArray[np.float64]:
        """Seconds of the slower of computing and memory, shape (n,)."""
        slower: NDArray[np.float64] = np.maximum(np.exp(self.compute) * ideal.compute, np.exp(self.memory) * ideal.traffic)
        return slower


def ideal_of(shapes: pd.DataFrame, gpu: Gpu, dtype: str) -> Ideal:
    """Ideal seconds of operators of one dtype on a GPU; ``dtype`` may be ``tf32`` or ``fp8``.

    Raises:
        InputError: the GPU does not compute in that dtype, or its row in the catalogue lacks the L2 cache.
    """
    if gpu.l2_cache is None:
        raise InputError(f"the catalogue has no l2_cache for {gpu.name}; add it to its row, in bytes")
    batch, m, n = (shapes[name].to_numpy(dtype=float) for name in ("batch", "m", "n"))
    flops = shapes["flops"].to_numpy(dtype=float)
    peak = peak_flops(gpu, dtype) if flops.any() else 1.0
    compute = np.full(len(shapes), np.inf)
    for wide, narrow, efficiency in _TILES:
        for down, across in {(wide, narrow), (narrow, wide)}:
            tiles = batch * np.ceil(m / down) * np.ceil(n / across)
            padded = np.ceil(tiles / gpu.sm_count) * gpu.sm_count * down * across / (batch * m * n)
            compute = np.minimum(compute, flops * padded / (peak * efficiency))
    return Ideal(
        compute=compute,
        plain=flops / peak,
        traffic=shapes["bytes"].to_numpy(dtype=float) / gpu.memory_bandwidth,
        waves=batch * np.ceil(m / 128) * np.ceil(n / 128) / gpu.sm_count,
    )


def features_of(family: str, shapes: pd.DataFrame, gpu: Gpu, ideal: Ideal, rates: Rates) -> NDArray[np.float64]:
    """What the trees see of operators of one family, shape (n, :func:`width`); nothing in it has a unit, no GPU is named."""
    m, n, k = (shapes[name].to_numpy(dtype=float) for name in ("m", "n", "k"))
    cached = np.log2(shapes["bytes"].to_numpy(dtype=float) / (gpu.l2_cache or np.nan))
    if family not in PRODUCTS:
        return np.column_stack([np.log2(n), np.log2(m / gpu.sm_count), _alignment(n), cached])
    full_waves = np.ceil(ideal.waves)
    return np.column_stack(
        [
            np.log2(k),
            np.log2(np.minimum(m, n)),
            np.log2(ideal.waves),
            ideal.waves / full_waves,
            np.log2(ideal.compute / ideal.plain),
            np.log2(ideal.compute / ideal.traffic) + (rates.compute - rates.memory) / np.log(2.0),
            cached,
            _alignment(m),
            _alignment(n),
            _alignment(k),
        ]
    )


def _alignment(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log2 of the largest power of two that divides each size, at most 32: what vector loads can use."""
    integers = sizes.astype(np.int64)
    aligned: NDArray[np.float64] = np.log2(np.minimum(integers & -integers, _WIDEST_ALIGNMENT))
    return aligned


_ATTENTION_BACKWARD = 1.25
"""Seconds per FLOP of attention's backward pass over those of its forward pass, which alone was measured: from the rates of Dao
2023 (FlashAttention-2), figures 4 to 6, on an A100."""

_REACH = 0.25
"""Distance at which a GPU's weight falls to 1/e; see :func:`distance`."""

_CAPABILITY = 0.25
_OTHER_DTYPE = 1.0
_OTHER_HALF = 0.05
"""FP16 and BF16 run on the same tensor cores at the same rate."""
_HALVES = {"float16", "bfloat16"}


def distance(first: tuple[float, float], second: tuple[float, float]) -> float:
    """How unlike two GPUs are in the share of their data sheet that they reach.

    The logarithm of the ratio of their power limits counts first: a card of 70 W cannot hold its boost clock in matrix products
    with any architecture; a GPU of 250 W can. Then the architecture, whose kernels are alike.

    Args:
        first, second: W and compute capability.
    """
    return abs(float(np.log(first[0] / second[0]))) + _CAPABILITY * abs(first[1] - second[1])


def _dtype_distance(dtype: str, other: str) -> float:
    if dtype == other:
        return 0.0
    return _OTHER_HALF if {dtype, other} == _HALVES else _OTHER_DTYPE


@dataclass(frozen=True)
class FamilyModel:
    """One family of operators: the trees, and the rates of each (GPU, dtype) that was measured."""

    trees: Trees
    rates: Mapping[tuple[str, str], Rates]


@dataclass(frozen=True)
class OperatorModel:
    """What ``lab.distributed.fitting`` learned; ``boards`` are W and compute capability by catalogue name."""

    families: Mapping[str, FamilyModel]
    boards: Mapping[str, tuple[float, float]]

    def measured(self, gpu: str, dtype: str) -> bool:
        """Whether matrix products of a GPU (catalogue name) in a dtype were measured."""
        dtypes = _HALVES if dtype in _HALVES else {dtype}
        return any(gpu == name and other in dtypes for name, other in self.families["linear"].rates)

    def rates(self, family: str, gpu: Gpu, dtype: str) -> Rates:
        """The rates of a GPU: its own where measured, else those of the most similar ones, weighted by :func:`distance`.

        A dtype that was measured nowhere takes the rates of the others: the share of the peak that a GPU reaches is assumed to
        be alike in all.

        Raises:
            InputError: the family was measured nowhere.
        """
        if family not in self.families:
            raise InputError(f"the operator model knows no {family} operators; fit it to a corpus that has some")
        measured = self.families[family].rates
        if (gpu.name, dtype) in measured:
            return measured[gpu.name, dtype]
        own = (gpu.tdp, gpu.compute_capability)
        far = np.array([distance(own, self.boards[name]) + _dtype_distance(dtype, other) for name, other in measured])
        weight = np.exp(-(far - far.min()) / _REACH)
        compute = weight @ [self._compute(family, key) for key in measured] / weight.sum()
        memory = weight @ [rate.memory for rate in measured.values()] / weight.sum()
        return Rates(float(compute), float(memory), float(np.median([rate.dispatch for rate in measured.values()])))

    def _compute(self, family: str, device: tuple[str, str]) -> float:
        """The compute rate of a measured GPU; single and batched products have one, as its clock under load is one."""
        families = ("linear", "bmm") if family in ("linear", "bmm") else (family,)
        measured = [self.families[each].rates.get(device) for each in families if each in self.families]
        return float(np.mean([rates.compute for rates in measured if rates is not None] or [0.0]))

    def kernel_seconds(self, shapes: pd.DataFrame, gpu: Gpu) -> NDArray[np.float64]:
        """Seconds that operators run on a GPU, without dispatch: rows of :data:`.shapes.SHAPE_COLUMNS` -> shape (n,).

        Raises:
            InputError: the GPU lacks a dtype, or a family was measured nowhere.
        """
        seconds = np.zeros(len(shapes))
        for (family, dtype), place in places_by(shapes, "family", "dtype").items():
            rows = shapes.iloc[place]
            ideal, rates = ideal_of(rows, gpu, dtype), self.rates(family, gpu, dtype)
            X = features_of(family, rows, gpu, ideal, rates)
            seconds[place] = rates.bound(ideal) * np.exp(self.families[family].trees.predict(X))
        return seconds


@dataclass(frozen=True)
class LearnedTimes:
    """Operator times of one GPU.

    Attributes:
        gpu: of the catalogue, measured or not.
        model: what was learned.
        precision: of the training.
        fused: whether neighbouring operators of one pass run as one kernel.
    """

    gpu: Gpu
    model: OperatorModel
    precision: Precision
    fused: bool = False

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator, shape (n,); communication counts as 0, and so do all but the first of a fused kernel.

        Raises:
            InputError: the GPU lacks a dtype, or an operator is of a family that was measured nowhere.
        """
        computing = [index for index, operator in enumerate(operators) if operator.kind != "communication"]
        shapes = shapes_of([operators[index] for index in computing], self.precision, self.fused)
        own = np.zeros(len(shapes))
        moving = (shapes["bytes"] > 0).to_numpy()
        own[moving] = self.model.kernel_seconds(shapes[moving], self.gpu)
        own *= [_ATTENTION_BACKWARD if operators[index].name == "epochcast.attention_backward" else 1.0 for index in computing]
        seconds = np.zeros(len(operators))
        seconds[computing] = own
        return seconds
