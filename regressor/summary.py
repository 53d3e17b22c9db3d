"""From samples to a profile: which epochs count, how long one is and how sure that is, and the statistics of each metric."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from epochcast.regressor.errors import InputError
from epochcast.regressor.profile import METRICS, STATISTICS, THROTTLED, Profile, Reason, Unit, feature_set
from epochcast.regressor.scoring import LEVEL

# A stall is longer than any scatter of the others explains (five robust standard deviations: of 3 million normal epochs one)
# and matters by itself: half as long again. The second rule alone holds where epochs are as even as the clock. By choice.
_STALL_DEVIATIONS = 5.0
_STALL_RATIO = 1.5
# More than this share of long epochs is how the job goes (layers unfrozen, an evaluation every other epoch), and no stall.
# By choice.
_MOST_STALLS = 1 / 3

# A gap of so many samples may hide a boundary: a long epoch with one may be two, so it counts neither as epoch nor as stall.
# By choice.
_HOLE_SAMPLES = 10

_NORMAL_MAD = 1.4826  # standard deviation of a normal distribution per median absolute deviation
_MEDIAN_EFFICIENCY = 1.2533  # standard error of a normal median per standard error of the mean, sqrt(pi / 2)


def summarise(
    gpu: str,
    time: ArrayLike,
    metrics: Mapping[str, ArrayLike],
    spans: Sequence[tuple[float, float]],
    *,
    unit: Unit = "epoch",
    exclude_first: bool = True,
    simulated: bool = False,
) -> Profile:
    """Summarise samples inside the epochs that were found (black-box paper, section III-C.1).

    The first span is left out if others remain (compilation, cold caches; ``first_epoch_s`` keeps its length), and so are
    stalls, see :func:`too_long` (``stall_s`` keeps their seconds for a whole job). ``epoch_s`` is the median length of the
    rest, with the 90 % interval that their scatter gives it: a Student interval for a median, no narrower than one sample,
    since a boundary falls between two. One span alone has no scatter, so no interval. Metrics count with their readings inside
    the kept spans; one with no reading, or that no profile holds (:data:`~epochcast.regressor.profile.METRICS`; a trace may
    carry any column), is left out. Without spans the whole trace is summarised and there is no ``epoch_s``.

    Args:
        gpu: name of the GPU that was sampled.
        time: seconds, shape (n,).
        metrics: metric name -> readings in base units, shape (n,), NaN where there is none.
        spans: (start, end) seconds of each epoch or step, same clock as ``time``, in the order of time.
        unit: what the spans are.
        exclude_first: leave the first span out.
        simulated: the telemetry was made up.

    Raises:
        InputError: no sample is inside the spans.
    """
    clock = np.asarray(time, dtype=np.float64)
    drop_first = exclude_first and len(spans) > 1
    counted = list(spans)[1:] if drop_first else list(spans)
    lengths = np.array([end - start for start, end in counted], dtype=np.float64)
    long = too_long(lengths)
    kept = [span for span, left_out in zip(counted, long.tolist(), strict=True) if not left_out]
    inside = _inside(clock, kept)
    statistics = _all_statistics(metrics, inside)
    stalls = long & ~_with_hole(clock, counted)
    latency = _lengths(lengths[~long], lengths[stalls], clock) if kept else {"epoch_s": None}
    return Profile(
        gpu=gpu,
        unit=unit if kept else None,
        epochs=len(kept),
        metrics=statistics,
        feature_set=feature_set(statistics),
        first_epoch_excluded=drop_first,
        simulated=simulated,
        first_epoch_s=spans[0][1] - spans[0][0] if drop_first else None,
        stalls=int(stalls.sum()),
        tensor_clock=_tensor_clock(metrics, inside),
        throttled=_throttled(metrics, inside),
        **latency,
    )


def too_long(lengths: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say of each of n lengths whether it is out of the ordinary: half as long again as the median, and beyond all scatter.

    Median and scatter (median absolute deviation) ignore such lengths as long as they are few; at most a third can be.
    """
    if lengths.size < 2:
        return np.zeros(lengths.shape, dtype=bool)
    middle = np.median(lengths)
    scatter = _NORMAL_MAD * np.median(np.abs(lengths - middle))
    long: NDArray[np.bool_] = lengths > max(_STALL_RATIO * middle, middle + _STALL_DEVIATIONS * scatter)
    return long if long.mean() <= _MOST_STALLS else np.zeros(lengths.shape, dtype=bool)


def _lengths(kept: NDArray[np.float64], stalls: NDArray[np.float64], clock: NDArray[np.float64]) -> dict[str, Any]:
    """``epoch_s``, its interval (from two epochs on) and the seconds of the stalls above it."""
    median = float(np.median(kept))
    latency = {"epoch_s": median, "stall_s": float((stalls - median).sum())}
    if kept.size > 1:
        error = _MEDIAN_EFFICIENCY * float(kept.std(ddof=1)) / np.sqrt(kept.size)
        sample = float(np.median(np.diff(clock))) if clock.size > 1 else 0.0
        half = max(float(stdtrit(kept.size - 1, (1 + LEVEL) / 2)) * error, sample)
        # In logarithms, so that the interval of few and uneven epochs stays above 0.
        latency |= {"epoch_s_low": median / (1 + half / median), "epoch_s_high": median + half}
    return latency


def _with_hole(clock: NDArray[np.float64], spans: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Whether samples are missing in a row inside each span."""
    gaps = np.diff(clock)
    if not gaps.size:
        return np.zeros(len(spans), dtype=bool)
    holes = np.flatnonzero(gaps > _HOLE_SAMPLES * np.median(gaps))
    begins, ends = clock[holes], clock[holes + 1]
    return np.array([bool(((begins < end) & (ends > start)).any()) for start, end in spans], dtype=bool)


def _inside(clock: NDArray[np.float64], spans: Sequence[tuple[float, float]]) -> NDArray[np.bool_]:
    """Which samples lie in the spans; all of them without spans."""
    if not spans:
        return np.ones(clock.shape, dtype=bool)
    inside = np.zeros(clock.shape, dtype=bool)
    for start, end in spans:
        inside |= (clock >= start) & (clock < end)
    if not inside.any():
        raise InputError(f"no sample is inside the {len(spans)} spans; are spans and time on the same clock?")
    return inside


def _all_statistics(metrics: Mapping[str, ArrayLike], inside: NDArray[np.bool_]) -> dict[str, dict[str, float]]:
    statistics = {}
    for name in (name for name in metrics if name in METRICS):
        readings = np.asarray(metrics[name], dtype=np.float64)
        if (readings := readings[inside & np.isfinite(readings)]).size:
            spread = readings.std(ddof=1) if readings.size > 1 else 0.0
            values = (readings.mean(), spread, *np.percentile(readings, [0, 25, 50, 75, 100]))
            statistics[name] = dict(zip(STATISTICS, map(float, values), strict=True))
    return statistics


def _tensor_clock(metrics: Mapping[str, ArrayLike], inside: NDArray[np.bool_]) -> float | None:
    """Mean of tensor activity times SM clock; the clock, which is read less often, is held between its readings."""
    if not {"tensor_active", "sm_clock"} <= metrics.keys():
        return None
    clock = np.asarray(metrics["sm_clock"], dtype=np.float64)
    newest = np.maximum.accumulate(np.where(np.isfinite(clock), np.arange(clock.size), 0))
    products = (np.asarray(metrics["tensor_active"], dtype=np.float64) * clock[newest])[inside]
    products = products[np.isfinite(products)]
    return float(products.mean()) if products.size else None


def _throttled(metrics: Mapping[str, ArrayLike], inside: NDArray[np.bool_]) -> dict[Reason, float] | None:
    """Mean of each reason's share of time that has a reading; a driver's counter may run a hair ahead of the clock."""
    shares = {}
    for column, reason in THROTTLED.items():
        readings = np.asarray(metrics.get(column, ()), dtype=np.float64)
        if readings.size and (readings := readings[inside & np.isfinite(readings)]).size:
            shares[reason] = float(np.clip(readings.mean(), 0, 1))
    return shares or None
