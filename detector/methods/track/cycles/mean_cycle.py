"""The mean course of a cycle: when in it the device rests, and when it does another kind of work than usual."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.clock import ACTIVITY, LEVELS
from epochcast.detector.filters import running_mean
from epochcast.detector.methods.track.cycles.activity import TraceActivity
from epochcast.detector.methods.track.grid import DISKS, SLOWER
from epochcast.detector.methods.track.template import minority
from epochcast.detector.signals import Signals

Array = NDArray[np.float64]

#: Bins in a cycle, at most, and samples in one, at least. Work is averaged over so many steps, where these show.
BINS, SAMPLES, STEPS = 192, 2.0, 1.5

#: Fewest bins in a cycle.
FEWEST_BINS = 6

#: Cycles whose length is this close to the median are averaged.
USUAL = 0.25

#: What does not grow with the work done.
STATES = LEVELS - set(ACTIVITY) | {"energy"}

#: Bytes and the like vary over decades: what is compared is their logarithm.
FLOWS = ("pcie", "nvlink", "write", "read", "disk")


@dataclass(frozen=True)
class MeanCycle:
    """A mean cycle of b bins; it is a circle, and bin 0 begins at the boundary.

    Attributes:
        bin_samples: of the trace, in a bin.
        step_bins: bins that a step takes; 0 where none shows.
        rests, saves: (b,) share of the cycles in which the device rests, and saves, in a bin.
        other: (b,) whether it does another kind of work than in most of the cycle.
        apart: how far the two kinds are apart, standard deviations; 0 where there is one kind.
        changes: metric -> its mean in the other kind of work relative to the usual one, those that change most first.
    """

    bin_samples: float
    step_bins: float
    rests: Array
    saves: Array
    other: NDArray[np.bool_]
    apart: float
    changes: dict[str, float]


def mean_cycle(
    signals: Signals, does: TraceActivity, boundaries: Array, step_s: float | None, outer: Array | None = None
) -> MeanCycle | None:
    """The mean cycle between boundaries [unix s], (k,), k >= 3; None where cycles have too few samples.

    Cycles at whose end a longer one ends are left out, where its boundaries are given: something else happens there.
    """
    time = signals.time
    interval = float(np.median(np.diff(time)))
    lengths = np.diff(boundaries)
    period = float(np.median(lengths))
    bins = int(min(BINS, period / (SAMPLES * interval)))
    if bins < FEWEST_BINS:
        return None
    cycle, place, inside = places_in(time, boundaries, bins)
    if outer is not None:
        inside &= np.abs(outer - boundaries[1:, None]).min(axis=1)[cycle] > period / 2

    def share(what: NDArray[np.bool_]) -> Array:
        return np.bincount(place[inside], what[inside], bins) / np.maximum(1, np.bincount(place[inside], minlength=bins))

    bin_samples, step_bins = period / bins / interval, (step_s or 0.0) / period * bins
    rests = share(does.rests)
    saves = np.zeros(bins) if does.saves is None else share(does.saves)
    # A sample next to a rest is partly one.
    edge = does.rests | np.append(does.rests[1:], False) | np.append(False, does.rests[:-1])
    working = inside & ~(edge if np.count_nonzero(inside & ~edge) > 0.5 * np.count_nonzero(inside) else does.rests)
    many = np.bincount(place[working], minlength=bins)
    seen = (many > 0) & (rests < 0.5)
    names = work_metrics(signals)
    if np.count_nonzero(seen) < FEWEST_BINS or not names:
        return MeanCycle(bin_samples, step_bins, rests, saves, np.zeros(bins, dtype=bool), 0.0, {})
    table = np.array([_scaled(name, signals.metrics[name]) for name in names])
    width = max(1, round(STEPS * step_bins))

    def work(rows: list[Array] | Array) -> Array:
        sums = np.array([np.bincount(place[working], row[working], bins) for row in rows])
        kept = np.concatenate([sums, many[None]])
        if width > 1:  # within the stretches of work: what is beyond a rest is not mixed with what is before it
            kept = running_mean(kept * seen, min(width, bins))
        return np.asarray(kept[:-1, seen] / np.maximum(kept[-1, seen], 1e-12))

    means = work(table)
    usual = np.median(means, axis=1, keepdims=True)
    spread = np.median(np.abs(means - usual), axis=1, keepdims=True)
    # By choice: no metric is known to less than 0.3 %, and none outweighs the others.
    spread = np.maximum(spread, 0.003 * np.abs(usual)) + 1e-12
    standard = np.clip((means - usual) / spread, -30, 30)
    curve = np.linalg.svd(standard - standard.mean(axis=1, keepdims=True), full_matrices=False)[2][0]
    rare = minority(curve)
    other = np.zeros(bins, dtype=bool)
    if not rare.any():
        return MeanCycle(bin_samples, step_bins, rests, saves, other, 0.0, {})
    scatter = np.sqrt((curve[rare].var() * rare.sum() + curve[~rare].var() * (~rare).sum()) / curve.size)
    apart = float(abs(curve[rare].mean() - curve[~rare].mean()) / max(scatter, 1e-12))
    other[np.flatnonzero(seen)[rare]] = True
    raw = work([signals.metrics[name] for name in names])
    ratio = raw[:, rare].mean(axis=1) / np.maximum(raw[:, ~rare].mean(axis=1), 1e-12)
    order = np.argsort(-np.abs(np.log(np.maximum(ratio, 1e-3))))
    return MeanCycle(bin_samples, step_bins, rests, saves, other, apart, {names[i]: float(ratio[i]) for i in order})


def places_in(time: Array, boundaries: Array, bins: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Of each sample the cycle, its bin in it, and whether it is inside a cycle of about the usual length; (n,) each."""
    lengths = np.diff(boundaries)
    middle = time - float(np.median(np.diff(time))) / 2  # a sample is the mean of the interval that ends at its time
    cycle = np.searchsorted(boundaries, middle, side="right") - 1
    inside = (cycle >= 0) & (cycle < lengths.size)
    cycle = cycle.clip(0, lengths.size - 1)
    inside &= np.abs(lengths[cycle] / np.median(lengths) - 1) <= USUAL
    return cycle, ((middle - boundaries[cycle]) / lengths[cycle] * bins).astype(int).clip(0, bins - 1), inside


def work_metrics(signals: Signals) -> list[str]:
    """Metrics that grow with the work done and follow it without delay."""
    fastest = min(signals.intervals.values())
    names = [
        name
        for name, values in sorted(signals.metrics.items())
        if name not in STATES | DISKS and signals.intervals[name] <= SLOWER * fastest and np.ptp(values) > 0
    ]
    # Power follows the work by a fraction of a second to a second: a rest is followed by work that seems to be of another kind.
    without_power = [name for name in names if not name.startswith("power")]
    return without_power or names


def _scaled(name: str, values: Array) -> Array:
    if not any(flow in name for flow in FLOWS):
        return values
    usual = float(np.median(values)) or float(values.max()) or 1.0
    return np.log1p(np.maximum(values, 0) / usual)
