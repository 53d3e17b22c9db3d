"""Forms of the performance model: seconds of a phase as a function of a network's metrics, its batch and the devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import nnls
from scipy.spatial.distance import cdist

from epochcast.analyzer.backends.convmeter.metrics import COMPUTING_KINDS, KINDS
from epochcast.analyzer.errors import InputError

Array = NDArray[np.float64]
Columns = pd.DataFrame | Mapping[str, Array]
"""Points, as a table or as its columns alone: of one network the latter are predicted in a fraction of the time."""

SHORTEST = 1e-9
"""Seconds: the least that a form predicts."""

_FEWEST = 5
_ENOUGH = 10  # points for sums that nothing constrains

# Of the loss: relative errors below are as good as none, squared there and absolute beyond.
_SMALL, _ROUNDS = 0.05, 12
_MOST_STEPS = 100  # of the active set, per term

# Of the Gaussian process: the distance at which networks are about half alike, in standard deviations per number of the
# description, and the variance that similarity does not explain over that of the process. Set by hand: siblings would decide
# the process' own likelihood, but predictions are of networks unlike all others.
_LENGTH, _NOISE = 0.5, 0.3
# An error beyond so many usual ones counts less: Huber's constant, from the median to the standard deviation of normal errors.
_HUBER = 1.345 * 1.4826
_FAR = 4.0
_MOST_POINTS = 1500  # its fit grows with their third power

_WEIGHTS = (0.5, 0.3, 0.2)
"""Of the corrected sum of layers, the free one and the paper's terms for a network unlike all that were measured. By choice
among a few on timm's four tables, families left out: weights by inner cross-validation are no better (0.0 to 0.2 points)."""


class Paper:
    """The paper's Eq. 2 to 4 by ordinary least squares: one set of coefficients for one device and one for several.

    A step is the sum of Eq. 1 where its phases were measured: on one device forward and backward pass and update, on several
    the forward pass and the other two together, which overlap (section 3.3). Else the step is fitted with the terms of all.

    Args:
        phase: one of ``metrics.PHASES``.
        fitted: what another was fitted to: coefficients by regime and phase.
    """

    def __init__(self, phase: str, fitted: Mapping[str, Any] | None = None) -> None:
        self.phase = phase
        self.fitted: dict[str, dict[str, Array]] = dict(fitted or {})

    def fit(self, points: pd.DataFrame, seconds: Array) -> Self:
        """Fit where there are as many points as coefficients.

        Args:
            points: metrics at batch 1, ``batch`` and ``devices``; of a step its phases too, where they were measured.
            seconds: measured, shape (n,).

        Raises:
            InputError: there are too few points.
        """
        sizes = []
        for regime, own in _regimes(points).items():
            parts = {
                phase: (paper_terms(points[own], phase, regime == "several"), y)
                for phase, y in self._parts(points[own], seconds[own], regime).items()
            }
            sizes += [f"{len(X)} points for {X.shape[1]} coefficients" for X, _ in parts.values()]
            if all(len(X) >= X.shape[1] for X, _ in parts.values()):
                self.fitted[regime] = {phase: ordinary(X, y) for phase, (X, y) in parts.items()}
        if not self.fitted:
            raise InputError(f"too few points to fit the {self.phase}: {sizes[0]}; measure more networks or batch sizes")
        return self

    def predict(self, points: Columns) -> Array:
        """Seconds, shape (n,); NaN on several devices if only single ones were measured, and the other way round."""
        answer = np.full(len(column(points, "devices")), np.nan)
        for regime, own in _regimes(points).items():
            if parts := self.fitted.get(regime):
                sums = [paper_terms(points, phase, regime == "several") @ each for phase, each in parts.items()]
                answer[own] = np.maximum(np.sum(sums, axis=0), SHORTEST)[own]
        return answer

    def _parts(self, points: pd.DataFrame, seconds: Array, regime: str) -> dict[str, Array]:
        """The seconds to fit, by the phase whose terms explain them."""
        phases = ("forward", "backward", "update")
        measured = {phase: column(points, f"{phase}_seconds") for phase in phases if f"{phase}_seconds" in points}
        if self.phase != "step" or len(measured) < 3 or not all((times > 0).all() for times in measured.values()):
            return {self.phase: seconds}
        if regime == "one":
            return measured
        return {"forward": measured["forward"], "step": measured["backward"] + measured["update"]}


class Default:
    """Sums over kinds of layers on one device, corrected by how similar networks did.

    The sum is fitted twice. *Pooled*: robustly, each kind drawn towards the common coefficient of all, so that a kind which no
    measured network had is as fast as the others. *Free*: by non-negative relative errors, nothing constrained. The pooled sum
    is multiplied by the error on similar networks, a Gaussian process over :func:`describe`. A network like measured ones gets
    that; the newer it is (its square), the more of a mixture with the free sum, held between the others, and with the paper's
    terms (non-negative, relative errors), which fail nowhere badly. An update follows from the weights: pooled alone.

    Points of several devices are passed over: what these exchange is not the network's (``scaling.py``).

    Args:
        phase: one of ``metrics.PHASES``.
        fitted: what another was fitted to: coefficients of the sums, and the process.
    """

    def __init__(self, phase: str, fitted: Mapping[str, Any] | None = None) -> None:
        self.phase = phase
        self.fitted: dict[str, Any] = dict(fitted or {})
        self._factor: Any = self._factored() if "pull" in self.fitted else None

    def fit(self, points: pd.DataFrame, seconds: Array) -> Self:
        """Fit all parts; arguments and errors as of :meth:`Paper.fit`."""
        alone = (points["devices"] == 1).to_numpy()
        points, seconds = points[alone], seconds[alone]
        if len(points) < _FEWEST:
            raise InputError(f"{len(points)} points of the {self.phase} are too few to fit; measure {_FEWEST} or more")
        self.fitted = {"pooled": self._pooled(points, seconds)}
        if self.phase == "update":
            return self
        terms = np.concatenate(self._terms(points), axis=1)
        if len(points) >= _ENOUGH:
            self.fitted |= {"free": relative(terms, seconds), "paper": relative(paper_terms(points, self.phase), seconds)}
        chosen = np.arange(len(points))
        if len(chosen) > _MOST_POINTS:
            chosen = np.sort(np.random.default_rng(0).choice(chosen, _MOST_POINTS, replace=False))
        base = np.maximum(terms[chosen] @ self.fitted["pooled"], SHORTEST)
        described = describe(points.iloc[chosen], base)
        self.fitted |= {"middle": described.mean(axis=0), "spread": described.std(axis=0) + 1e-6}
        errors = np.log(seconds[chosen] / base)
        # The noise of a point grows with its error beyond the usual one: a network ten times too slow for reasons of its own
        # (group norms, kernels that a layout lacks) draws others less, and its siblings together still draw each other.
        usual = max(_HUBER * float(np.median(np.abs(errors))), SHORTEST)
        self.fitted["described"] = self._standard(described).astype(np.float32)  # enough digits, half the file
        self.fitted["noise"] = (_NOISE * np.maximum(1, np.abs(errors) / usual)).astype(np.float32)
        self._factor = self._factored()
        self.fitted["pull"] = cho_solve(self._factor, errors)
        return self

    def predict(self, points: Columns) -> Array:
        """Seconds, shape (n,); NaN on several devices."""
        terms = np.concatenate(self._terms(points), axis=1)
        base: Array = np.maximum(terms @ self.fitted["pooled"], SHORTEST)
        base[column(points, "devices") > 1] = np.nan
        if self._factor is None:
            return base
        likeness = _likeness(self._standard(np.nan_to_num(describe(points, base))), self.fitted["described"])
        corrected = np.log(base) + likeness @ self.fitted["pull"]
        # The share of the errors' variance that measured networks leave open.
        novelty = np.clip(1 - (likeness * cho_solve(self._factor, likeness.T).T).sum(axis=1), 0, 1)
        if "free" not in self.fitted:
            return np.asarray(np.exp(corrected))
        free = np.log(np.maximum(terms @ self.fitted["free"], SHORTEST))
        paper = np.log(np.maximum(paper_terms(points, self.phase) @ self.fitted["paper"], SHORTEST))
        held = np.clip(free, np.minimum(corrected, paper), np.maximum(corrected, paper))
        mixed: Array = np.stack([corrected, held, paper], axis=1) @ np.array(_WEIGHTS)
        answer: Array = np.exp(corrected + novelty**2 * (mixed - corrected))
        return answer

    def _terms(self, points: Columns) -> list[Array]:
        """Terms in pools, whose coefficients have one in common, and the others; each of shape (n, …).

        FLOPs by kind of layer; elements moved by kind, and weights, which a small batch waits for; FLOPs of narrow
        convolutions, outputs, operators (a launch each), images and 1. Of an update with P parameter tensors: W (a pass over
        memory), P (launches), 1, and W·W/P: a mean tensor that fits into a cache is updated faster.
        """
        batch, weights, ones = column(points, "batch"), column(points, "weights"), np.ones(len(column(points, "batch")))
        if self.phase == "update":
            tensors = column(points, "parameter_tensors")
            return [np.stack([weights, tensors, ones, weights * weights / np.maximum(tensors, 1)], axis=1)]
        dense = column(points, "linear_weights")
        flops = [batch * column(points, f"{kind}_flops") for kind in COMPUTING_KINDS]
        moved = [*(batch * column(points, f"{kind}_traffic") for kind in KINDS), weights - dense, dense]
        growing = [batch * column(points, name) for name in ("narrow_flops", "conv_outputs")]
        others = [*growing, column(points, "operators"), batch, ones]
        return [np.stack(each, axis=1) for each in (flops, moved, others)]

    def _pooled(self, points: pd.DataFrame, seconds: Array) -> Array:
        """Coefficients with the least sum of |log(X·c/y)| plus (coefficient − common)² of each pool.

        At its scale a coefficient of 1 explains all of a usual point: being off by all of a point's seconds counts as that
        point's being wrong by so much.
        """
        *pools, others = self._terms(points)
        scales = [np.full(pool.shape[1], np.median(pool.sum(axis=1) / seconds)) for pool in pools]
        middle, mean = (of(others / seconds[:, None], axis=0) for of in (np.median, np.mean))
        scale = np.concatenate([*scales, np.where(middle > 0, middle, mean)])
        scale = np.where(scale > 0, scale, 1.0)
        X = np.concatenate([*pools, others], axis=1) / scale
        common = np.zeros((len(X), len(pools)))  # these coefficients explain nothing themselves
        penalties = _penalties([pool.shape[1] for pool in pools], X.shape[1])
        coefficients: Array = robust(np.concatenate([X, common], axis=1), seconds, penalties)[: len(scale)] / scale
        return coefficients

    def _factored(self) -> Any:
        described = self.fitted["described"]
        return cho_factor(_likeness(described, described) + np.diag(self.fitted["noise"]))

    def _standard(self, described: Array) -> Array:
        """So that the distance of two usual networks is about 1.4, however many numbers describe them."""
        standard = np.clip((described - self.fitted["middle"]) / self.fitted["spread"], -_FAR, _FAR)
        return np.asarray(standard / np.sqrt(described.shape[1]), dtype=np.float64)


Form = Default | Paper
"""What a phase is predicted by: made for a phase, fitted, and kept as arrays."""


def paper_terms(points: Columns, phase: str, several: bool = False) -> Array:
    """The terms of Eq. 2 to 4 on one device or on several, shape (n, 1 to 7).

    Forward and backward pass and inference: b·FLOPs, b·Inputs, b·Outputs, 1 (Eq. 3). Update: L on one device; L, W and N on
    several (Eq. 4). Step: all of them, as the seven coefficients of backward pass and update together; on one device N is
    no more than the constant, and left out.
    """
    batch, layers, weights, devices = (column(points, name) for name in ("batch", "layers", "weights", "devices"))
    passes = [*(batch * column(points, name) for name in ("flops", "conv_inputs", "conv_outputs")), np.ones_like(batch)]
    if phase == "update":
        return np.stack([layers, weights, devices] if several else [layers], axis=1)
    if phase == "step":
        return np.stack([*passes, layers, weights, *([devices] if several else [])], axis=1)
    return np.stack(passes, axis=1)


def describe(points: Columns, seconds: Array) -> Array:
    """Describe each point, shape (n, 37): shares of kinds, FLOPs per element moved, and how much an operator has to do.

    Args:
        points: metrics at batch 1 and ``batch``.
        seconds: about how long each takes, above 0, shape (n,); few seconds per operator hint at launches.
    """

    def ratio(above: str, below: str) -> Array:
        answer: Array = np.log(np.maximum(column(points, above), 1) / np.maximum(column(points, below), 1))
        return answer

    batch, operators = column(points, "batch"), np.maximum(column(points, "operators"), 1)
    flops = np.maximum(column(points, "flops"), 1)
    traffic = np.maximum(sum(column(points, f"{kind}_traffic") for kind in KINDS), 1)
    columns = [
        *(column(points, f"{kind}_flops") / flops for kind in COMPUTING_KINDS),
        *(column(points, f"{kind}_traffic") / traffic for kind in KINDS),
        np.log(flops / traffic),
        np.log(seconds / operators),
        np.log(batch * flops / operators),
        np.log(batch * traffic / operators),
        np.log(traffic),
        column(points, "narrow_flops") / flops,
        ratio("conv_inputs", "conv_outputs"),
        np.log(np.maximum(column(points, "weights"), 1) / traffic),
        np.log((column(points, "conv_weights") + 1) / np.maximum(column(points, "weights"), 1)),
    ]
    for kind in COMPUTING_KINDS:
        kind_flops, moved = column(points, f"{kind}_flops"), column(points, f"{kind}_traffic")
        there = moved > 0
        columns.append(np.where(there, np.log((kind_flops + 1) / (moved + 1)), 0.0))
        columns.append(np.where(there, np.log((batch * moved + 1) / (column(points, f"{kind}_operators") + 1)), 0.0))
    return np.stack(columns, axis=1)


def column(points: Columns, name: str) -> Array:
    """One column, shape (n,)."""
    return np.asarray(points[name], dtype=np.float64)


def ordinary(X: Array, y: Array) -> Array:
    """Coefficients of ordinary least squares, as the paper fits; shapes (n, k) and (n,) -> (k,)."""
    scale = _norms(X)
    coefficients: Array = np.linalg.lstsq(X / scale, y, rcond=None)[0] / scale
    return coefficients


def relative(X: Array, y: Array) -> Array:
    """Coefficients of 0 or more with the least sum of squared relative errors, Σ (X·c/y − 1)²; shapes as :func:`ordinary`."""
    A = X / y[:, None]
    scale = _norms(A)
    return _non_negative(A / scale, np.ones(len(y))) / scale


def robust(X: Array, y: Array, penalties: Array) -> Array:
    """Coefficients of 0 or more with the least sum of |log(X·c/y)| (squared below 5 %), plus |penalties·c|².

    Iteratively reweighted: with r = X·c/y, (r − 1)² is weighed so that it represents log² r / max(|log r|, 5 %).

    Args:
        X: shape (n, k), of a scale on which coefficients of one size are as likely.
        y: seconds above 0, shape (n,).
        penalties: shape (p, k), a row for each sum of coefficients that should be near 0.
    """
    A, weight, before = X / y[:, None], np.full(len(y), _SMALL**-0.5), np.full(X.shape[1], np.inf)
    for _ in range(_ROUNDS + 1):
        target = np.r_[weight, np.zeros(len(penalties))]
        coefficients = _non_negative(np.r_[A * weight[:, None], penalties], target)
        if np.allclose(before, coefficients, rtol=1e-3, atol=1e-6):
            break
        ratio = np.maximum(A @ coefficients, 1e-3)
        logarithm, away = np.abs(np.log(ratio)), np.abs(ratio - 1)
        slope = np.where(away > 1e-6, logarithm / np.maximum(away, 1e-6), 1.0)
        weight, before = slope / np.sqrt(np.maximum(logarithm, _SMALL)), coefficients
    return coefficients


def _non_negative(A: Array, b: Array) -> Array:
    coefficients: Array = nnls(A, b, maxiter=_MOST_STEPS * A.shape[1])[0]
    return coefficients


def _norms(X: Array) -> Array:
    """The norm of each column, 1 for one of zeros: without it, billions of elements would be mixed with single launches."""
    norm: Array = np.sqrt((X**2).sum(axis=0))
    return np.where(norm > 0, norm, 1.0)


def _penalties(sizes: Sequence[int], terms: int) -> Array:
    """A row for each pooled coefficient, less the common one of its pool; shape (sum of sizes, terms + pools)."""
    pool = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.zeros((len(pool), terms + len(sizes)))
    rows[np.arange(len(pool)), np.arange(len(pool))] = 1.0
    rows[np.arange(len(pool)), terms + pool] = -1.0
    return rows


def _likeness(left: Array, right: Array) -> Array:
    """Matérn 5/2, shape (n, m); 1 for the same."""
    scaled = np.sqrt(5) * cdist(left, right) / _LENGTH
    answer: Array = (1 + scaled + scaled**2 / 3) * np.exp(-scaled)
    return answer


def _regimes(points: Columns) -> dict[str, NDArray[np.bool_]]:
    several = column(points, "devices") > 1
    return {name: own for name, own in (("one", ~several), ("several", several)) if own.any()}
