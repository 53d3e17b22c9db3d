"""The paper's Eq. 2 to 4: ``paper`` fits them by ordinary least squares, ``relative`` by non-negative relative errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.forms.least_squares import SHORTEST, ordinary, relative
from epochcast.analyzer.backends.convmeter.terms import Columns, column, paper_terms, update_terms
from epochcast.analyzer.errors import InputError
from epochcast.regressor.arrays import Arrays, part, parts_of

Array = NDArray[np.float64]


class Equations:
    """Coefficients of Eq. 2 to 4, one set for one device and one for several, as Eq. 4 has it.

    A step is the sum of Eq. 1 where its phases were measured: on one device forward and backward pass and update, on several
    the forward pass and the other two together, which overlap (section 3.3). Else the step is fitted with the terms of all.

    Args:
        phase: one of ``points.PHASES``.
        solve: :func:`.least_squares.ordinary` or :func:`.least_squares.relative`. The latter takes W and a constant into the
            update on one device: that is a pass over all weights, which L says little about.
    """

    def __init__(self, phase: str, solve: Callable[[Array, Array], Array]) -> None:
        self.phase = phase
        self._solve = solve
        self.coefficients: dict[str, dict[str, Array]] = {}

    @classmethod
    def paper(cls, phase: str) -> Self:
        """As in the paper."""
        return cls(phase, ordinary)

    @classmethod
    def relative(cls, phase: str) -> Self:
        """The same terms, fitted on relative errors."""
        return cls(phase, relative)

    def fit(self, points: pd.DataFrame, seconds: Array) -> Self:
        """Fit where there are as many points as coefficients.

        Raises:
            InputError: there are fewer on one device and on several.
        """
        sizes = []
        for regime, own in _regimes(points).items():
            parts = {
                terms: (self._terms(points[own], terms, regime), y)
                for terms, y in self._parts(points[own], seconds[own], regime).items()
            }
            sizes += [f"{len(X)} points for {X.shape[1]} coefficients" for X, _ in parts.values()]
            if all(len(X) >= X.shape[1] for X, _ in parts.values()):
                self.coefficients[regime] = {terms: self._solve(X, y) for terms, (X, y) in parts.items()}
        if not self.coefficients:
            raise InputError(f"too few points to fit the {self.phase}: {sizes[0]}; measure more networks or batch sizes")
        return self

    def predict(self, points: Columns) -> Array:
        """Seconds, shape (n,); NaN on several devices if only single ones were measured, and the other way round."""
        answer = np.full(len(column(points, "devices")), np.nan)
        for regime, own in _regimes(points).items():
            if regime in self.coefficients:
                parts = [
                    self._terms(points, terms, regime) @ coefficients
                    for terms, coefficients in self.coefficients[regime].items()
                ]
                answer[own] = np.maximum(np.sum(parts, axis=0), SHORTEST)[own]
        return answer

    def arrays(self) -> dict[str, Array]:
        """Coefficients, named ``REGIME.TERMS``."""
        return {
            f"{regime}.{terms}": coefficients
            for regime, parts in self.coefficients.items()
            for terms, coefficients in parts.items()
        }

    def restore(self, arrays: Arrays) -> Self:
        """Take coefficients of :meth:`arrays`."""
        self.coefficients = {regime: part(arrays, regime) for regime in parts_of(arrays)}
        return self

    def _parts(self, points: pd.DataFrame, seconds: Array, regime: str) -> dict[str, Array]:
        """The seconds to fit, by the phase whose terms explain them."""
        measured = {
            phase: points[f"{phase}_seconds"].to_numpy(dtype=float)
            if f"{phase}_seconds" in points
            else np.full(len(points), np.nan)
            for phase in ("forward", "backward", "update")
        }
        if self.phase != "step" or not all((times > 0).all() for times in measured.values()):
            return {self.phase: seconds}
        if regime == "one":
            return measured
        return {"forward": measured["forward"], "step": measured["backward"] + measured["update"]}

    def _terms(self, points: Columns, phase: str, regime: str) -> Array:
        terms = paper_terms(points, phase, regime == "several")
        if phase == "update" and self._solve is relative:
            return np.concatenate([terms[:, :1], update_terms(points)[:, [0, 2]], terms[:, 2:]], axis=1)
        return terms


def _regimes(points: Columns) -> dict[str, NDArray[np.bool_]]:
    several = column(points, "devices") > 1
    return {name: own for name, own in (("one", ~several), ("several", several)) if own.any()}
