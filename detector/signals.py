"""Input checks: the caller's data become clean arrays, or one clear error."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.detector.errors import InputError

#: Which metric stands for the device's activity when none is named. Paper, section IV-B: `dram_active` detects best.
PREFERENCE = (
    "dram_active",
    "sm_active",
    "gr_engine_active",
    "gpu_utilization",
    "memory_utilization",
    "power",
    "process_cpu_utilization",
    "cpu_utilization",
    "cpu",
)

#: Columns that are always running totals; others are recognised by their shape (`_is_counter`).
COUNTERS = frozenset({"energy"})

#: Columns that follow from others, or say how the hardware is: none shows what a job does better than the others.
_NOT_OF_WORK = re.compile(
    "ofu|held_idle|throttled_.+|.+_errors|last_xid|remapped_rows_.+|row_remap_.+|pcie_replays|vgpu_license_status"
    "|fan_speed|memory_temperature|memory_reserved"
)

#: Beyond any measurement, and small enough that squares and their sums stay finite. By choice.
LARGEST = 1e100

#: Unix seconds. Beyond, floats are so far apart that a tenth of a second after a time may be that same time.
LATEST = 1e13


@dataclass(frozen=True)
class Signals:
    """A cleaned trace.

    Attributes:
        time: (n,) unix seconds, finite, strictly increasing, n >= 2.
        metrics: name -> (n,) finite values, never empty; counters are given as their rate per second.
        intervals: name -> median seconds between readings; what is read once a second is held in between.
    """

    time: NDArray[np.float64]
    metrics: Mapping[str, NDArray[np.float64]]
    intervals: Mapping[str, float]

    def select(self, names: str | Sequence[str] | None) -> "Signals":
        """These signals with the named metrics only. Raises InputError on an unknown name.

        None leaves out what the whole machine used where it is also known of the job's own processes: others use it as well.
        """
        if names is None:
            names = of_the_job(self.metrics)
        wanted = [names] if isinstance(names, str) else list(names)
        if not wanted:
            raise InputError("no metric named: name at least one, or leave out the choice")
        for name in wanted:
            if name not in self.metrics:
                raise InputError(
                    f"metric {name!r} is not in the trace (or has no reading): choose from {_listed(self.metrics)}"
                )
        return Signals(self.time, {name: self.metrics[name] for name in wanted}, self.intervals)

    def main(self) -> str:
        """Name of the metric that represents the device's activity: the first of PREFERENCE, else the first that varies."""
        for name in PREFERENCE:
            if name in self.metrics:
                return name
        return next((name for name, values in self.metrics.items() if np.ptp(values) > 0), next(iter(self.metrics)))


def of_the_job(names: Collection[str]) -> list[str]:
    """The metrics that may show a job's work; without those of the whole machine that its own processes have (`process_*`)."""
    return [name for name in names if f"process_{name}" not in names and not _NOT_OF_WORK.fullmatch(name)]


def clean(time: ArrayLike, metrics: Mapping[str, ArrayLike]) -> Signals:
    """Check and complete a trace.

    A metric is empty (NaN) between its readings: readings are carried forward, the first one also backward. A metric without
    any reading is dropped. Counters (`energy`, and every column that never falls and rises at more than half of the samples)
    become rates per second, a counter's reset becoming a rate of 0.

    Args:
        time: (n,) unix seconds, strictly increasing.
        metrics: name -> (n,) values.

    Raises:
        InputError: fewer than 2 samples, times that are NaN, beyond 1e13, unsorted or repeated, a metric of another length, of
            something else than numbers, or with an infinite value or one beyond 1e100, and no metric with a reading.
    """
    clock = vector("time", time)
    if clock.size < 2:
        raise InputError(f"the trace has {clock.size} sample(s): detection needs at least 2")
    if not (sound := np.abs(clock) <= LATEST).all():
        bad = int(np.argmin(sound))
        raise InputError(f"time holds {clock[bad]} at row {bad}: every sample needs a finite time in unix seconds")
    steps = np.diff(clock)
    if (steps <= 0).any():
        bad = int(np.flatnonzero(steps <= 0)[0]) + 1
        fault = "repeats" if clock[bad] == clock[bad - 1] else "goes back"
        raise InputError(f"time {fault} at row {bad} ({clock[bad - 1]!s} then {clock[bad]!s}): sort the rows, one per time")
    cleaned: dict[str, NDArray[np.float64]] = {}
    intervals: dict[str, float] = {}
    for name, column in metrics.items():
        values = vector(f"metric {name!r}", column)
        if values.size != clock.size:
            raise InputError(f"metric {name!r} has {values.size} values for {clock.size} times: give one value per time")
        if (beyond := np.abs(values) > LARGEST).any():
            bad = int(np.argmax(beyond))
            raise InputError(f"metric {name!r} holds {values[bad]} at row {bad}: remove or correct it")
        read = clock[~np.isnan(values)]
        if read.size:
            intervals[name] = float(np.median(np.diff(read))) if read.size > 1 else float(clock[-1] - clock[0])
            filled = _fill(values)
            cleaned[name] = _rate(values, clock) if name in COUNTERS or _is_counter(filled) else filled
    if not cleaned:
        raise InputError(f"the trace has no metric with a reading (columns: {_listed(metrics)}): record at least one")
    return Signals(clock, cleaned, intervals)


def vector(what: str, values: ArrayLike) -> NDArray[np.float64]:
    """What a caller handed in as floats, (n,). Raises InputError for something else; `what` names it."""
    try:
        raw = np.asarray(values)
        array = raw.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} holds something that is not a number ({error}): give floats") from error
    if raw.dtype.kind in "mM":  # pandas' date-times convert to nanoseconds without a word
        raise InputError(f"{what} holds {raw.dtype} values: give floats, times in unix seconds")
    if array.ndim != 1:
        raise InputError(f"{what} has {array.ndim} dimensions: give one value per sample")
    return array


def carried(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Readings carried forward along the last axis; NaN before the first."""
    at = np.where(np.isnan(table), 0, np.arange(table.shape[-1]))
    return np.take_along_axis(table, np.maximum.accumulate(at, axis=-1), axis=-1)


def _fill(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Readings carried forward, the first one also backward. `values` holds at least one reading."""
    return np.nan_to_num(carried(values), nan=values[~np.isnan(values)][0])


def _is_counter(values: NDArray[np.float64]) -> bool:
    steps = np.diff(values)
    # By choice: a metric that hardly moves, or a short one, says nothing of what it is.
    return bool((steps >= 0).all() and np.mean(steps > 0) > 0.5 and steps.size >= 20)


def _rate(values: NDArray[np.float64], time: NDArray[np.float64]) -> NDArray[np.float64]:
    """Growth per second between readings, held until the next one. `values` holds at least one reading."""
    read = np.flatnonzero(~np.isnan(values))
    if read.size < 2:
        return np.zeros(values.size)
    rate = np.full(values.size, np.nan)
    rate[read[1:]] = np.maximum(np.diff(values[read]), 0.0) / np.diff(time[read])
    return _fill(rate)


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(names) or "none"
