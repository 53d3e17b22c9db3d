"""Operator times from operators measured on the same GPU: those of the same size, else scaled from the most similar ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from epochcast.analyzer.backends.distributed.models.graph import Operator
from epochcast.analyzer.backends.distributed.operator_time.shapes import PRODUCTS, places_by, shapes_of
from epochcast.analyzer.backends.distributed.plan.precision import Precision
from epochcast.analyzer.errors import InputError

_NEIGHBOURS = 4

_REACH = 1.0
"""How far outside of the measured sizes an operator may lie: in log2 of each side, a factor of two."""


@dataclass(frozen=True)
class Table:
    """Operator times of the GPU that a corpus (:mod:`.corpus`) was measured on.

    Between measured sizes an operator's speed (FLOP/s of a product, bytes/s of what memory bounds) is the mean of its four
    nearest in log space, weighted by the inverse of their distance; its time is its work over that speed.

    Attributes:
        corpus: measured operators; rows of other GPUs are passed over.
        gpu: name, as in the corpus.
        precision: of the training.
    """

    corpus: pd.DataFrame
    gpu: str
    precision: Precision
    _parts: dict[tuple[str, str], _Part] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows = self.corpus[self.corpus["gpu"] == self.gpu]
        if rows.empty:
            known = ", ".join(sorted(self.corpus["gpu"].unique())) or "nothing"
            raise InputError(
                f"the corpus holds no operators of {self.gpu}; it holds {known}; measure some, or leave out --corpus"
            )
        for (family, dtype), place in places_by(rows, "family", "dtype").items():
            self._parts[family, dtype] = _Part.of(family, rows.iloc[place])

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator, shape (n,); communication counts as 0.

        Raises:
            InputError: the corpus has nothing like one of them: another family or dtype, or sizes out of its range.
        """
        computing = [index for index, operator in enumerate(operators) if operator.kind != "communication"]
        seconds = np.zeros(len(operators))
        shapes = shapes_of([operators[index] for index in computing], self.precision)
        for (family, dtype), place in places_by(shapes, "family", "dtype").items():
            part = self._parts.get((family, dtype))
            if part is None:
                raise InputError(
                    f"the corpus holds no {family} operators in {dtype} of {self.gpu}; measure some, or leave out --corpus"
                )
            seconds[np.asarray(computing)[place]] = part.seconds(family, shapes.iloc[place], self.gpu)
        return seconds


@dataclass(frozen=True)
class _Part:
    """One family and dtype: points in log2 of the sizes, the log of the speed at each, and the box around them."""

    tree: cKDTree
    speed: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, family: str, rows: pd.DataFrame) -> _Part:
        points = _points(family, rows)
        speed = np.log(_work(family, rows) / rows["seconds"].to_numpy(dtype=float))
        # The same operator measured twice is one point with its mean.
        unique, inverse = np.unique(points, axis=0, return_inverse=True)
        mean = np.bincount(inverse.ravel(), speed) / np.bincount(inverse.ravel())
        return cls(cKDTree(unique), mean, unique.min(axis=0), unique.max(axis=0))

    def seconds(self, family: str, shapes: pd.DataFrame, gpu: str) -> NDArray[np.float64]:
        points = _points(family, shapes)
        outside = ((points < self.low - _REACH) | (points > self.high + _REACH)).any(axis=1)
        if outside.any():
            row = shapes.iloc[int(np.argmax(outside))]
            raise InputError(
                f"a {family} operator of sizes batch {row['batch']}, m {row['m']}, n {row['n']}, k {row['k']} is outside the "
                f"range of the corpus of {gpu}; measure larger and smaller operators, or leave out --corpus"
            )
        neighbours = self.tree.query(points, k=list(range(1, min(_NEIGHBOURS, len(self.speed)) + 1)))
        distance, nearest = map(np.asarray, neighbours)
        with np.errstate(divide="ignore"):
            weight = np.where(distance[:, :1] == 0, distance == 0, 1.0 / distance)
        speed = (weight * self.speed[nearest]).sum(axis=1) / weight.sum(axis=1)
        seconds: NDArray[np.float64] = _work(family, shapes) / np.exp(speed)
        return seconds


def _points(family: str, rows: pd.DataFrame) -> NDArray[np.float64]:
    """Log2 of the sides of a product; of other operators, of the length of a row and the bytes."""
    columns = ["batch", "m", "n", "k"] if family in PRODUCTS else ["n", "bytes"]
    points: NDArray[np.float64] = np.log2(rows[columns].to_numpy(dtype=float))
    return points


def _work(family: str, rows: pd.DataFrame) -> NDArray[np.float64]:
    return rows["flops" if family in PRODUCTS else "bytes"].to_numpy(dtype=float)
