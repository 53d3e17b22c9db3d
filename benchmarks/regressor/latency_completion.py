"""From the latencies of a workload on several GPUs to its latency on one more: completion of a workload-by-GPU table."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.cluster import KMeans
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Matern, WhiteKernel
from sklearn.metrics import pairwise_distances_argmin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from epochcast.regressor import Gpu, InputError

# Standard deviations of the features, and variances of log seconds. By choice, as are the kernel's below and the defaults of
# the class; benchmarks/regressor/latency_only.py measures what they bring together.
_LENGTH, _NOISE = 2.5, 0.003
_LENGTHS, _NOISES = (1.5, 3.0, 6.0), (0.0003, 0.001, 0.003)


class LatencyCompletion(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Seconds on a target GPU from epoch and step seconds on two or more known GPUs, without telemetry.

    The prior mean is the data sheets' ratio from each known GPU, averaged in logs. A Gaussian process on its residual learns
    from the workloads that the target has run. With few of them its kernel is fixed (variances of log ratios, lengths of
    standardised features: a handful of rows cannot tell them); from ``learn_kernel_from`` rows on length and noise are the
    likeliest of a small grid, which takes a tenth of a gradient search, and extra trees join. Without any row the prior mean
    is the answer.

    Args:
        known: the GPUs that latencies are known on.
        target: the GPU asked for.
        learn_kernel_from: rows from which the kernel is learnt and trees are trained.
        trees: extra trees beside the process.
        random_state: seed of the trees, and of the choice of anchors.
    """

    def __init__(
        self, known: Sequence[Gpu], target: Gpu, learn_kernel_from: int = 100, trees: int = 200, random_state: int = 0
    ) -> None:
        self.known = known
        self.target = target
        self.learn_kernel_from = learn_kernel_from
        self.trees = trees
        self.random_state = random_state

    def fit(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> Self:
        """Learn from a library of workloads, some of which the target has run.

        Args:
            X: seconds per epoch on each known GPU, then seconds per step on each, shape (n, 2 · GPUs).
            y: seconds per epoch on the target, shape (n,); NaN where it has not run, such rows only scale the features.

        Raises:
            InputError: shapes do not fit, there is one GPU, or a value is no duration.
        """
        if len(self.known) < 2:
            raise InputError(f"{len(self.known)} known GPU; completion needs two or more, else use the recipe 'latency-only'")
        features = self._features(X)
        if y.shape != (len(X),) or (y <= 0).any() or np.isinf(y).any():
            raise InputError(f"the target's seconds have shape {y.shape}; give one above 0, or NaN, for each of {len(X)} rows")
        self.scaler_ = StandardScaler().fit(features)
        rows = np.flatnonzero(np.isfinite(y))
        self.members_ = []
        if rows.size:
            Z, residual = self.scaler_.transform(features[rows]), np.log(y[rows]) - self._prior(X[rows])
            if rows.size < self.learn_kernel_from:
                self.members_ = [_process(Z, residual, _LENGTH, _NOISE)]
            else:
                processes = [_process(Z, residual, length, noise) for length in _LENGTHS for noise in _NOISES]
                likeliest = max(processes, key=lambda process: process.log_marginal_likelihood_value_)
                forest = ExtraTreesRegressor(self.trees, random_state=self.random_state)
                self.members_ = [likeliest, forest.fit(Z, residual)]
        return self

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return seconds per epoch on the target, shape (n,)."""
        check_is_fitted(self)
        log_seconds, Z = self._prior(X), self.scaler_.transform(self._features(X))
        if self.members_:
            log_seconds = log_seconds + np.mean([member.predict(Z) for member in self.members_], axis=0)
        seconds: NDArray[np.float64] = np.exp(log_seconds)
        return seconds

    def choose(self, X: NDArray[np.float64], count: int) -> NDArray[np.intp]:
        """Choose the workloads to measure on the target: of each of ``count`` k-means clusters the row nearest its centre.

        The clusters lie in the features that the process measures distances in; nothing of the target is needed.

        Args:
            X: as in :meth:`fit`.
            count: clusters; fewer rows come back where two centres share their nearest.
        """
        Z = StandardScaler().fit_transform(self._features(X))
        # Ten starts by choice.
        centres = KMeans(count, n_init=10, random_state=self.random_state).fit(Z).cluster_centers_
        rows: NDArray[np.intp] = np.unique(pairwise_distances_argmin(centres, Z))
        return rows

    def _prior(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log seconds by data sheets alone, shape (n,)."""
        speed = np.mean([_log_speed(gpu) for gpu in self.known]) - _log_speed(self.target)
        log_seconds: NDArray[np.float64] = np.log(X[:, : len(self.known)]).mean(axis=1) + speed
        return log_seconds

    def _features(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """How each GPU differs from their mean in log epoch and log steps; mean log step and log steps, (n, 2 · GPUs + 2).

        The differences are small beside the means and say most: they stand alone, so that scaling brings them out. Epoch/step
        seconds count batches; what differs between GPUs there is validation and what else an epoch holds beside its steps.
        """
        gpus = len(self.known)
        if X.ndim != 2 or X.shape[1] != 2 * gpus or not (np.isfinite(X) & (X > 0)).all():
            raise InputError(f"X has shape {X.shape}; give epoch, then step seconds above 0 on each of {gpus} GPUs")
        epoch, step = np.log(X[:, :gpus]), np.log(X[:, gpus:])
        steps = epoch - step
        epoch_mean, steps_mean = epoch.mean(axis=1, keepdims=True), steps.mean(axis=1, keepdims=True)
        return np.hstack([epoch - epoch_mean, step.mean(axis=1, keepdims=True), steps - steps_mean, steps_mean])


def _log_speed(gpu: Gpu) -> float:
    """Return the log of what :func:`~epochcast.regressor.features.prior_log_ratio` compares on a GPU that is always busy.

    It averages the logs of F and of the root of F·B: three quarters and one.
    """
    return 0.75 * float(np.log(gpu.effective_flops)) + 0.25 * float(np.log(gpu.memory_bandwidth))


def _process(Z: NDArray[np.float64], residual: NDArray[np.float64], length: float, noise: float) -> GaussianProcessRegressor:
    """A GPU's own speed (a third either way), a weak trend and a smooth rest, as variances of log seconds."""
    smooth = ConstantKernel(0.1) * Matern(length, nu=1.5)
    kernel = ConstantKernel(0.1) + ConstantKernel(0.01) * DotProduct(0.0, "fixed") + smooth + WhiteKernel(noise)
    return GaussianProcessRegressor(kernel, optimizer=None).fit(Z, residual)
