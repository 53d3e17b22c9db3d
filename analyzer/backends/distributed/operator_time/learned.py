"""Operator times of any GPU of the catalogue, learned from operators measured on others.

An operator takes ``max(c · compute, m · traffic) · exp(g(x))``: the ideal seconds of :mod:`.features`, two rates of the GPU,
and boosted trees over properties without a unit, shared by all GPUs. What measuring adds to every operator (the host's dispatch
to an idle GPU) is fitted next to them and left out of the answer: in training, launches are queued ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.graph import Operator
from epochcast.analyzer.backends.distributed.operator_time.features import Rates, features_of, ideal_of
from epochcast.analyzer.backends.distributed.operator_time.shapes import PRODUCTS, places_by, shapes_of
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Gpu
from epochcast.regressor.trees import Trees

_REACH = 0.25
"""Distance at which a GPU's weight falls to 1/e; see :func:`distance`."""

_CAPABILITY = 0.25
_OTHER_DTYPE = 1.0


@dataclass(frozen=True)
class Board:
    """A measured GPU, as far as likeness to others goes: W and compute capability."""

    tdp: float
    compute_capability: float


def distance(first: Board, second: Board) -> float:
    """How unlike two GPUs are in the share of their data sheet that they reach.

    The logarithm of the ratio of their power limits counts first: a card of 70 W cannot hold its boost clock in matrix products
    with any architecture; a GPU of 250 W can. Then the architecture, whose kernels are alike.
    """
    return abs(float(np.log(first.tdp / second.tdp))) + _CAPABILITY * abs(first.compute_capability - second.compute_capability)


@dataclass(frozen=True)
class FamilyModel:
    """One family of operators: the trees, and the rates of each (GPU, dtype) that was measured."""

    trees: Trees
    rates: Mapping[tuple[str, str], Rates]


@dataclass(frozen=True)
class OperatorModel:
    """What :func:`.fitting.fit_operators` learned; ``boards`` are the GPUs by catalogue name."""

    families: Mapping[str, FamilyModel]
    boards: Mapping[str, Board]

    def measured(self, gpu: str, dtype: str) -> bool:
        """Whether matrix products of a GPU (catalogue name) in a dtype were measured."""
        return any((gpu, dtype) in self.families[family].rates for family in PRODUCTS if family in self.families)

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
        board = Board(gpu.tdp, gpu.compute_capability)
        far = np.array([distance(board, self.boards[name]) + _OTHER_DTYPE * (dtype != other) for name, other in measured])
        weight = np.exp(-(far - far.min()) / _REACH)
        compute = weight @ [self._compute(key) for key in measured] / weight.sum()
        memory = weight @ [rate.memory for rate in measured.values()] / weight.sum()
        return Rates(float(compute), float(memory), float(np.median([rate.dispatch for rate in measured.values()])))

    def _compute(self, device: tuple[str, str]) -> float:
        """The compute rate of a measured GPU over both families of products: its clock under load is one."""
        measured = [self.families[family].rates.get(device) for family in PRODUCTS if family in self.families]
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
        tf32: whether FP32 products run on TF32 tensor cores.
    """

    gpu: Gpu
    model: OperatorModel
    tf32: bool = False

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator, shape (n,); communication counts as 0.

        Raises:
            InputError: the GPU lacks a dtype, or an operator is of a family that was measured nowhere.
        """
        computing = [index for index, operator in enumerate(operators) if operator.kind != "communication"]
        seconds = np.zeros(len(operators))
        shapes = shapes_of([operators[index] for index in computing], self.tf32)
        seconds[computing] = self.model.kernel_seconds(shapes, self.gpu)
        return seconds
