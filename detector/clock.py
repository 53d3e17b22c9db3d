"""The wall clock and the work clock.

A job that shares its device runs slower while others run, so that its epochs differ in wall seconds but hardly in work. The
work clock counts work instead: u = cumulative sum of activity times the sampling interval, in seconds of full activity.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.epochs import ClockName
from epochcast.detector.errors import InputError
from epochcast.detector.signals import Signals

#: Columns that only a GPU has; a trace with one of them runs on the wall clock unless `clock` says otherwise.
GPU_METRICS = frozenset(
    {
        *("gr_engine_active", "sm_active", "sm_occupancy", "tensor_active", "dram_active"),
        *("fp64_active", "fp32_active", "fp16_active", "pcie_tx", "pcie_rx", "nvlink_tx", "nvlink_rx"),
        *("gpu_utilization", "memory_utilization", "power", "power_average", "energy", "sm_clock", "memory_clock"),
        *("temperature", "memory_used", "memory_free", "bar1_used", "bar1_free"),
    }
)

#: Columns that measure how active the device is, the best first.
ACTIVITY = ("sm_active", "gr_engine_active", "gpu_utilization", "process_cpu_utilization", "cpu_utilization", "cpu")

#: Columns that are states of the device: they do not grow with the work done, so that the work clock leaves them alone.
LEVELS = frozenset(
    {
        *("memory_used", "memory_free", "bar1_used", "bar1_free", "rss"),
        *("process_rss", "process_threads", "temperature", "sm_clock", "memory_clock", *ACTIVITY),
    }
)

# An idle stretch still advances the work clock by this share of its mean speed: readings stay strictly increasing. By choice:
# small enough to count as rest.
IDLE_SPEED = 1e-3


@dataclass(frozen=True)
class Clock:
    """Maps unix seconds to the readings of a clock and back.

    Attributes:
        name: `wall` or `work`.
        time: (n,) unix seconds.
        reading: (n,) the clock's seconds at `time`, strictly increasing; equal to `time` on the wall clock.
    """

    name: ClockName
    time: NDArray[np.float64]
    reading: NDArray[np.float64]

    def at(self, time: NDArray[np.float64]) -> NDArray[np.float64]:
        """Readings at unix seconds; the work clock stands still outside the trace."""
        return time if self.name == "wall" else np.interp(time, self.time, self.reading)

    def to_wall(self, reading: NDArray[np.float64]) -> NDArray[np.float64]:
        """Unix seconds at which the clock showed `reading`, clipped to the trace on the work clock."""
        return reading if self.name == "wall" else np.interp(reading, self.reading, self.time)

    def resample(self, name: str, values: NDArray[np.float64], readings: NDArray[np.float64]) -> NDArray[np.float64]:
        """A metric at evenly spaced readings of this clock, by linear interpolation.

        On the work clock a rate per second becomes a rate per work done: what was counted up to each reading is interpolated
        and differenced, since the ratio of two rates that are each counted in ticks of 10 ms would be mostly noise.

        Args:
            name: of the metric.
            values: (n,) at `time`.
            readings: (k,) evenly spaced, k >= 2.
        """
        if self.name == "wall" or name in LEVELS:
            return np.interp(readings, self.reading, values)
        counted = np.concatenate([[0.0], np.cumsum(values[1:] * np.diff(self.time))])
        step = readings[1] - readings[0]
        edges = np.append(readings - step, readings[-1])
        rates = np.diff(np.interp(edges, self.reading, counted)) / step
        if edges[0] < self.reading[0]:  # nothing was counted before the trace: its first rate is not 0 but unknown
            rates[0] = rates[1]
        return np.asarray(rates)


def wall(time: NDArray[np.float64]) -> Clock:
    """The wall clock over a trace."""
    return Clock("wall", time, time)


def choose(signals: Signals, name: Literal["wall", "work", "auto"] = "auto") -> Clock:
    """The clock to search on.

    `auto` is the work clock where the trace holds no GPU metric but an activity (a CPU trace), else the wall clock.

    Raises:
        InputError: an unknown name, or the work clock on a trace without any activity.
    """
    if name not in ("wall", "work", "auto"):
        raise InputError(f"unknown clock {name!r}: choose wall, work or auto")
    activity = next((column for column in ACTIVITY if column in signals.metrics), None)
    if name == "auto":
        name = "wall" if activity is None or GPU_METRICS & signals.metrics.keys() else "work"
        if activity is not None and not (signals.metrics[activity] > 0).any():
            name = "wall"
    if name == "wall":
        return wall(signals.time)
    if activity is None:
        raise InputError(f"the work clock needs one of {', '.join(ACTIVITY)}, the trace has none of them: use the wall clock")
    speed = np.maximum(signals.metrics[activity], 0.0)
    if not speed.any():
        raise InputError(f"the work clock stands still: {activity!r} is never above 0; use the wall clock")
    speed = np.maximum(speed, IDLE_SPEED * speed.mean())
    reading = np.concatenate([[0.0], np.cumsum(speed[1:] * np.diff(signals.time))])
    return Clock("work", signals.time, reading)


def other(signals: Signals, clock: Clock) -> Clock | None:
    """The work clock for the wall clock and the reverse; None where no metric measures the device's activity."""
    try:
        return choose(signals, "work" if clock.name == "wall" else "wall")
    except InputError:
        return None
