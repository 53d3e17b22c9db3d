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
        support: 1 where the profile and both GPUs lie within what training has seen, towards 0 the further outside; the learnt
            part of an answer counts by this share, the prior takes the rest.
        routes: how each pair is answered, a name of the recipe's own.
        sources: name of the source GPU.
        origins: the source profile's collection, empty where it has none.
    """

    log_ratio: NDArray[np.float64]
    scale: NDArray[np.float64]
    support: NDArray[np.float64]
    routes: NDArray[np.str_]
    sources: NDArray[np.str_]
    origins: NDArray[np.str_]

    @classmethod
    def none(cls) -> Self:
        """Answers to no pair."""
        return cls(*(np.empty(0, dtype) for dtype in (float, float, float, "<U14", "<U1", "<U1")))

    def __getitem__(self, rows: NDArray[np.intp]) -> "Answers":
        """Return the answers of these rows."""
        return Answers(*(getattr(self, field.name)[rows] for field in fields(self)))

    def updated(self, rows: NDArray[np.intp], other: "Answers") -> "Answers":
        """Return these answers with those of some rows in the place of their own."""
        columns = []
        for field in fields(self):
            here, there = getattr(self, field.name), getattr(other, field.name)
            columns.append(here.astype(np.result_type(here, there)))
            columns[-1][rows] = there
        return Answers(*columns)

    @classmethod
    def concatenate(cls, parts: Sequence["Answers"]) -> Self:
        """Put the answers of several lists of pairs one after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))
