"""Error figures, and the quantile that turns errors into an interval."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.9
"""Share of true values that an interval is meant to hold; by choice."""

FEWEST_ERRORS = 9
"""Below so many errors no finite conformal quantile is valid at :data:`LEVEL`: 9 / (9 + 1) is 0.9."""


@dataclass(frozen=True)
class Scores:
    """Error figures over the answered rows (percent, seconds); ``coverage`` is the share of rows answered."""

    mape: float
    median_ape: float
    rmse: float
    r2: float
    n: int
    coverage: float


def score(actual: NDArray[np.float64], predicted: NDArray[np.float64]) -> Scores:
    """Compare seconds, shape (n,) each; NaN in ``predicted`` is a row without an answer."""
    answered = np.isfinite(predicted)
    n = int(answered.sum())
    if n == 0:
        return Scores(math.nan, math.nan, math.nan, math.nan, 0, 0.0)
    truth, guess = actual[answered], predicted[answered]
    ape = absolute_percentage_errors(actual, predicted)
    spread = float(((truth - truth.mean()) ** 2).sum())
    return Scores(
        mape=float(ape.mean()),
        median_ape=float(np.median(ape)),
        rmse=float(np.sqrt(((guess - truth) ** 2).mean())),
        r2=1 - float(((guess - truth) ** 2).sum()) / spread if spread > 0 else math.nan,
        n=n,
        coverage=n / len(actual),
    )


def absolute_percentage_errors(actual: NDArray[np.float64], predicted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return |predicted/actual − 1| · 100 of the answered rows, shape (answered,)."""
    answered = np.isfinite(predicted)
    errors: NDArray[np.float64] = 100 * np.abs(predicted[answered] / actual[answered] - 1)
    return errors


def conformal_quantile(errors: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
    """The split-conformal quantile of absolute errors at :data:`LEVEL`: the ⌈(n + 1) · 0.9⌉-th smallest.

    With weights, shape (n,), errors count by them, and the new one as much as they do on average (Tibshirani et al. 2019). With
    fewer than :data:`FEWEST_ERRORS` no finite quantile is valid; the largest error is returned then.
    """
    sizes = np.abs(errors)
    counts = np.ones(len(sizes)) if weights is None else weights / weights.mean()
    order = np.argsort(sizes)
    # A hair below, as sums of equal weights are not exact.
    enough = np.cumsum(counts[order]) >= LEVEL * (len(sizes) + 1) * (1 - 1e-12)
    return float(sizes[order[np.argmax(enough) if enough.any() else -1]])
