"""The answers of a recipe that knows its own uncertainty to a list of pairs, before any interval is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Answers:
    """One answer per pair, arrays of shape (n,).

    Attributes:
        log_ratio: log of target/source seconds.
        scale: expected size of |log error| relative to other answers of the same route, above 0; a conformal quantile of
            |error| / scale makes an interval of it (:mod:`~epochcast.regressor.intervals`).
        support: 1 where jobs were measured on both GPUs, 0 where one of them has its data sheet alone.
        routes: how each pair is answered, a name of the recipe's own.
        cells: the kind of answers whose errors make the interval.
        groups: what errs together, such as a family of networks; empty where that is not known.
        in_precision: log ratio if the job computes in each of ``PRECISIONS``, NaN for unlikely ones; shape (n, 4).
    """

    log_ratio: NDArray[np.float64]
    scale: NDArray[np.float64]
    support: NDArray[np.float64]
    routes: NDArray[np.str_]
    cells: NDArray[np.str_]
    groups: NDArray[np.str_]
    in_precision: NDArray[np.float64]

    def __getitem__(self, rows: NDArray[np.intp]) -> "Answers":
        """Return the answers of these rows."""
        return Answers(*(getattr(self, field.name)[rows] for field in fields(self)))

    @classmethod
    def concatenate(cls, parts: Sequence["Answers"]) -> Self:
        """Put the answers of several lists of pairs one after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))
