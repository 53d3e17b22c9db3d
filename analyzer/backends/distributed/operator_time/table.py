"""Operator times from operators measured on the same GPU: those of the same size, else scaled from the most similar ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.models.graph import Operator
from epochcast.analyzer.backends.distributed.operator_time.shapes import PRODUCTS, SHAPE_COLUMNS, places_by, shapes_of
from epochcast.analyzer.backends.distributed.plan.job import Precision
from epochcast.analyzer.backends.measured_table import MeasuredTable
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Catalog
from epochcast.regressor import InputError as RegressorInputError

if TYPE_CHECKING:
    from sklearn.neighbors import KNeighborsRegressor


_TEXTS = ("gpu", "op", "pass", "family", "dtype")

CORPUS_COLUMNS = ("gpu", "op", "pass", *SHAPE_COLUMNS, "seconds")
"""``gpu`` is the catalogue's name; ``pass`` is forward or backward; the others as in :mod:`.shapes`."""

SHORTEST, LONGEST = 1e-9, 3600.0
"""Seconds of an operator: more than an hour is milliseconds or microseconds read as seconds."""


def read_corpus(path: Path, catalog: Catalog) -> pd.DataFrame:
    """Read measured operators from a CSV file, as ``python -m lab.measure operators`` writes it.

    Returns:
        One row per measured operator, columns :data:`CORPUS_COLUMNS`. A CPU, or a GPU that the catalogue does not have, keeps
        its name.

    Raises:
        InputError: the file cannot be read or lacks a column, or a row is no measurement.
    """
    table = MeasuredTable(path, _TEXTS, f"a table of operators has {', '.join(CORPUS_COLUMNS)}")
    least = {"flops": 0.0, "seconds": SHORTEST}
    columns = {
        name: table.texts(name)
        if name in _TEXTS
        else table.numbers(name, least.get(name, 1.0), LONGEST if name == "seconds" else float("inf"))
        for name in CORPUS_COLUMNS
    }
    names = {device: _device(device, catalog) for device in columns["gpu"].unique()}
    return pd.DataFrame(columns).assign(gpu=columns["gpu"].map(names))


def _device(name: str, catalog: Catalog) -> str:
    try:
        return catalog.resolve(name).name
    except RegressorInputError:
        return name


_NEIGHBOURS = 4

_REACH = 1.0
"""How far outside of the measured sizes an operator may lie: in log2 of each side, a factor of two."""


@dataclass(frozen=True)
class Table:
    """Operator times of the GPU that a corpus was measured on.

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

    @cached_property
    def _families(self) -> dict[tuple[str, str], tuple[KNeighborsRegressor, pd.DataFrame]]:
        """The speed by size of each family and dtype, and the sizes; the same operator measured twice counts once."""
        from sklearn.neighbors import KNeighborsRegressor

        rows = self.corpus[self.corpus["gpu"] == self.gpu]
        if rows.empty:
            known = ", ".join(sorted(self.corpus["gpu"].unique())) or "nothing"
            raise InputError(
                f"the corpus holds no operators of {self.gpu}; it holds {known}; measure some, or leave out --corpus"
            )
        found = {}
        for (family, dtype), place in places_by(rows, "family", "dtype").items():
            own = rows.iloc[place]
            points = _points(family, own)
            speed = (own[_work(family)] / own["seconds"]).map(math.log).groupby([points[name] for name in points]).mean()
            sizes = speed.index.to_frame(index=False)
            nearest = KNeighborsRegressor(min(_NEIGHBOURS, len(sizes)), weights="distance", algorithm="kd_tree")
            found[family, dtype] = nearest.fit(sizes.to_numpy(), speed.to_numpy()), sizes
        return found

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator, shape (n,); communication counts as 0.

        Raises:
            InputError: the corpus has nothing like one of them: another GPU, family or dtype, or sizes out of its range.
        """
        computing = [index for index, operator in enumerate(operators) if operator.kind != "communication"]
        seconds = np.zeros(len(operators))
        shapes = shapes_of([operators[index] for index in computing], self.precision)
        for (family, dtype), place in places_by(shapes, "family", "dtype").items():
            if (family, dtype) not in self._families:
                raise InputError(
                    f"the corpus holds no {family} operators in {dtype} of {self.gpu}; measure some, or leave out --corpus"
                )
            nearest, sizes = self._families[family, dtype]
            own = shapes.iloc[place]
            points = _points(family, own)
            outside = ((points < sizes.min() - _REACH) | (points > sizes.max() + _REACH)).any(axis=1)
            if outside.any():
                row = own[outside].iloc[0]
                raise InputError(
                    f"a {family} operator of sizes batch {row['batch']}, m {row['m']}, n {row['n']}, k {row['k']} is outside "
                    f"the range of the corpus of {self.gpu}; measure larger and smaller operators, or leave out --corpus"
                )
            seconds[np.asarray(computing)[place]] = own[_work(family)] / np.exp(nearest.predict(points.to_numpy()))
        return seconds


def _points(family: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Log2 of the sides of a product; of other operators, of the length of a row and the bytes."""
    return rows[["batch", "m", "n", "k"] if family in PRODUCTS else ["n", "bytes"]].astype(float).map(math.log2)


def _work(family: str) -> str:
    return "flops" if family in PRODUCTS else "bytes"
