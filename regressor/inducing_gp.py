"""A smooth regressor that keeps no training row: a Gaussian process on inducing points, deaf to outliers, per pair of GPUs."""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from epochcast.regressor.arrays import Arrays, part, under

Matrix = NDArray[np.float64]
Names = NDArray[np.str_]

# Keeps the matrices positive definite; relative to a prior variance of about 1. By choice.
_JITTER = 1e-6
# Rounds of the outliers' weights (decision 0013).
_REWEIGHTINGS = 4
# Standard deviation of a normal distribution per median absolute deviation.
_NORMAL_MAD = 1.4826

# A process of fewer rows would be a guess: such a pair of GPUs is answered like one never seen. By choice
# (decision 0013).
FEWEST_ROWS = 5

# A process's time grows with the cube of its rows and its file with their square. Some hundred profiles fill the space between
# them; of more a random choice is taken, and of fewer where many pairs of GPUs share the file: this many numbers in all.
# By choice (decision 0013).
_MOST_ROWS = 500
_MOST_NUMBERS = 3_000_000


class InducingGaussianProcess(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian process (Matérn 5/2) on columns of about unit scale, projected onto inducing points (DTC).

    Inducing points are the means of each row and its nearest neighbour: close enough to the rows for a smooth function, and
    none of them a row, so that a saved process is not its training data (decision 0013). The predictor is that of Seeger,
    Williams and Lawrence 2003, as equation 20 of Quiñonero-Candela and Rasmussen 2005.

    Outliers: a row whose leave-one-out residual is large against the others' gets a larger noise, by the weights of a Cauchy
    likelihood, iterated. In telemetry a stalled run is such an outlier, and must not bend its neighbours.

    Hyper-parameters are fixed, not fitted: in columns of unit scale the square root of their number is the typical distance of
    two rows, and with some hundred rows the marginal likelihood has many flat maxima (decision 0013;
    `outlier` is by choice). The columns are not scaled here: a column that is nearly constant in this process's rows, but not
    elsewhere, would be blown up to noise.

    Args:
        amplitude: prior standard deviation of the function, in standard deviations of ``y``.
        noise: standard deviation of the noise, in the same unit.
        outlier: leave-one-out residual, in robust standard deviations, at which a row counts half.

    Attributes:
        points_: inducing points, shape (m, features).
        center_, spread_: median and standard deviation of ``y``.
        coefficients_: weight of each inducing point, shape (m,).
        factor_: lower Cholesky factor of K_uu + K_uf Λ⁻¹ K_fu, shape (m, m).
    """

    def __init__(self, amplitude: float = 2.0, noise: float = 0.17, outlier: float = 3.0) -> None:
        self.amplitude = amplitude
        self.noise = noise
        self.outlier = outlier

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit on X of shape (n, features) and y of shape (n,)."""
        rows, values = validate_data(self, X, y, y_numeric=True, dtype=np.float64)
        self.center_, self.spread_ = float(np.median(values)), float(np.std(values)) or 1.0
        target = (values - self.center_) / self.spread_
        self.weights_ = self._weights(rows, target)
        self.points_ = _midpoints(rows)
        self._factor_points()
        variance = self.noise**2 / self.weights_
        cross = self._kernel(self.points_, rows)
        inner = self._kernel(self.points_, self.points_) + (cross / variance) @ cross.T
        inner[np.diag_indices_from(inner)] += _JITTER * np.trace(inner) / len(inner)
        self.factor_ = np.tril(cho_factor(inner, lower=True)[0])
        self.coefficients_ = cho_solve((self.factor_, True), (cross / variance) @ target)
        return self

    def predict(self, X: ArrayLike) -> Matrix:
        """Return the mean at each row, shape (n, features) -> (n,)."""
        return self.predict_with_variance(X)[0]

    def predict_with_variance(self, X: ArrayLike) -> tuple[Matrix, Matrix]:
        """Return the mean, and the share of prior variance that the data leave, 0 (known) to 1 (nothing near), shape (n,)."""
        check_is_fitted(self)
        cross = self._kernel(validate_data(self, X, reset=False, dtype=np.float64), self.points_)
        mean = self.center_ + self.spread_ * (cross @ self.coefficients_)
        known = (solve_triangular(self._points_factor, cross.T, lower=True) ** 2).sum(axis=0)
        left = (solve_triangular(self.factor_, cross.T, lower=True) ** 2).sum(axis=0)
        return mean, np.clip(1 - (known - left) / self.amplitude**2, 0.0, 1.0)

    def _factor_points(self) -> None:
        """Keep the lower Cholesky factor of K_uu, shape (m, m): every prediction needs it."""
        own = self._kernel(self.points_, self.points_)
        own[np.diag_indices_from(own)] += _JITTER * self.amplitude**2
        self._points_factor = np.asarray(np.linalg.cholesky(own), dtype=np.float64)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the fitted state."""
        return {
            "points": self.points_,
            "coefficients": self.coefficients_,
            "factor": self.factor_,
            "target": np.array([self.center_, self.spread_]),
        }

    @classmethod
    def of_arrays(cls, arrays: Arrays, name: str) -> Self:
        """Take the part ``name`` of a model's arrays, with default hyper-parameters."""
        process, own = cls(), part(arrays, name)
        process.points_, process.coefficients_, process.factor_ = own["points"], own["coefficients"], own["factor"]
        process.center_, process.spread_ = own["target"].tolist()
        process._factor_points()
        process.n_features_in_ = process.points_.shape[1]
        return process

    def _kernel(self, a: Matrix, b: Matrix) -> Matrix:
        """Matérn covariance of smoothness 5/2, Rasmussen and Williams 2006, equation 4.17, shape (len(a), len(b))."""
        distance = np.sqrt(5 / a.shape[1]) * cdist(a, b)
        kernel: Matrix = self.amplitude**2 * (1 + distance + distance**2 / 3) * np.exp(-distance)
        return kernel

    def _weights(self, rows: Matrix, target: Matrix) -> Matrix:
        """Weight of each row, 1 for one that its neighbours explain."""
        weights = np.ones(len(rows))
        if len(rows) < 3:
            return weights
        kernel = self._kernel(rows, rows)
        for _ in range(_REWEIGHTINGS):
            inverse = np.linalg.inv(kernel + np.diag(self.noise**2 / weights))
            residual = inverse @ target / np.diag(inverse)  # leave-one-out, Rasmussen and Williams 2006, equation 5.12
            typical = _NORMAL_MAD * np.median(np.abs(residual))
            if typical == 0:
                break
            weights = 1 / (1 + (residual / (self.outlier * typical)) ** 2)
        return weights


def _midpoints(rows: Matrix) -> Matrix:
    """Mean of each row and its nearest neighbour, each once; a row that all others equal is its own."""
    distinct = np.unique(rows, axis=0)  # the nearest neighbour of a repeated row would be the row itself
    if len(distinct) == 1:
        return distinct
    distance = cdist(distinct, distinct)
    np.fill_diagonal(distance, np.inf)
    return np.unique((distinct + distinct[distance.argmin(axis=1)]) / 2, axis=0)


class PairProcesses:
    """Processes by (source GPU, target GPU), all over the same columns of unit scale."""

    def __init__(self, processes: Mapping[tuple[str, str], InducingGaussianProcess]) -> None:
        self._processes = dict(processes)

    @classmethod
    def fit(
        cls, X: NDArray[np.float64], y: NDArray[np.float64], sources: Names, targets: Names
    ) -> tuple[Self, NDArray[np.float64]]:
        """Fit on rows of shape (n, features), targets y of shape (n,), and names of shape (n,).

        Returns:
            The processes, and the weight of each row: 1 for one that its neighbours explain, less for an outlier.
        """
        processes, weights, rng = {}, np.ones(len(X)), np.random.default_rng(0)
        pairs = sorted(set(zip(sources.tolist(), targets.tolist(), strict=True)))
        most = min(_MOST_ROWS, math.isqrt(_MOST_NUMBERS // len(pairs)))
        for names in pairs:
            rows = np.flatnonzero((sources == names[0]) & (targets == names[1]))
            if len(rows) > most:
                rows = rng.choice(rows, most, replace=False)
            if len(rows) >= FEWEST_ROWS:
                processes[names] = InducingGaussianProcess().fit(X[rows], y[rows])
                weights[rows] = processes[names].weights_
        return cls(processes), weights

    def __contains__(self, names: object) -> bool:
        return names in self._processes

    def predict(
        self, X: NDArray[np.float64], sources: Names, targets: Names
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean of each row's own process, NaN without one, and how unknown the row is, shape (n,).

        The second is the share of prior variance left: 0 next to a training profile, 1 far from all. For a pair of GPUs without
        a process it is the smallest over the processes of the same source, and of all where the source was never seen.
        """
        mean, unknown = np.full(len(X), np.nan), np.ones(len(X))
        for source in sorted(set(sources.tolist())):
            rows = np.flatnonzero(sources == source)
            # One profile with thirty target GPUs is thirty equal rows.
            distinct, row_of = np.unique(X[rows], axis=0, return_inverse=True)
            known = [names for names in self._processes if names[0] == source]
            smallest = np.ones(len(distinct))
            for names in known or self._processes:
                here, left = self._processes[names].predict_with_variance(distinct)
                smallest = np.minimum(smallest, left)
                own = targets[rows] == names[1] if known else np.zeros(len(rows), dtype=bool)
                mean[rows[own]], unknown[rows[own]] = here[row_of[own]], left[row_of[own]]
            foreign = np.isnan(mean[rows])
            unknown[rows[foreign]] = smallest[row_of[foreign]]
        return mean, unknown

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return every process's arrays, numbered; :meth:`restored` needs the names in their order."""
        numbered = [under(str(number), process.arrays()) for number, process in enumerate(self._processes.values())]
        return {name: array for arrays in numbered for name, array in arrays.items()}

    @property
    def names(self) -> list[tuple[str, str]]:
        """(source, target) of each process, in the order of the arrays."""
        return list(self._processes)

    @classmethod
    def restored(cls, names: list[tuple[str, str]], arrays: Arrays) -> Self:
        """Processes of the part ``processes`` of a model's arrays."""
        return cls({pair: InducingGaussianProcess.of_arrays(arrays, f"processes.{row}") for row, pair in enumerate(names)})
