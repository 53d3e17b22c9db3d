"""Missing features: their expectation given those that are there, from a joint normal distribution per source GPU."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

# Share of a diagonal covariance mixed in: some dozens of rows make a covariance of twenty-five columns nearly singular.
# By choice.
_SHRINKAGE = 0.05


class NormalImputer:
    """Mean of every source GPU's rows, and the covariance around it that all of them share.

    Attributes:
        gpus: names, in the order of the rows of ``means``.
        means: shape (gpus, features).
        covariance: shape (features, features).
    """

    def __init__(self, gpus: list[str], means: NDArray[np.float64], covariance: NDArray[np.float64]) -> None:
        self.gpus = gpus
        self.means = means
        self.covariance = covariance

    @classmethod
    def fit(cls, X: NDArray[np.float64], sources: NDArray[np.str_]) -> Self:
        """Estimate from complete rows, shape (n, features), and the source GPU of each, shape (n,)."""
        gpus = sorted(set(sources.tolist()))
        means = np.array([X[sources == gpu].mean(axis=0) for gpu in gpus])
        around = X - means[np.searchsorted(gpus, sources)]
        covariance = around.T @ around / len(X)
        return cls(gpus, means, (1 - _SHRINKAGE) * covariance + _SHRINKAGE * np.diag(np.diag(covariance) + 1e-9))

    def fill(self, X: NDArray[np.float64], sources: NDArray[np.str_]) -> NDArray[np.float64]:
        """Return X, shape (n, features), with each NaN replaced; a GPU never seen gets the mean over the others."""
        filled = X.copy()
        missing = np.isnan(X)
        for row in np.flatnonzero(missing.any(axis=1)):
            gpu = str(sources[row])
            mean = self.means[self.gpus.index(gpu)] if gpu in self.gpus else self.means.mean(axis=0)
            out, held = missing[row], ~missing[row]
            if held.any():
                gain = np.linalg.solve(self.covariance[np.ix_(held, held)], X[row, held] - mean[held])
                filled[row, out] = mean[out] + self.covariance[np.ix_(out, held)] @ gain
            else:
                filled[row, out] = mean[out]
        return filled
