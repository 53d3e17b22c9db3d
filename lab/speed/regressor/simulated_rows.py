"""Simulated traces of public rows: a class of the detector's simulator, at a row's epoch length, with a row's statistics.

A public row holds seven statistics per metric and one length; what an agent would have recorded is not published. So a job of a
class is drawn, its timeline stretched until its usual epoch is as long as the row's (a factor of two at most: the job is drawn
that is nearest), and read out at 10 Hz with all that the simulator makes of it: a slow first epoch, evaluations, stalls, noise,
time stamps that are off, utilisation and clocks only once a second. Then each metric that the row has is mapped, reading by
reading and in the order of size, onto the row's minimum, quartiles, maximum and mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq

from epochcast.analyzer.traces.trace import Trace, make_trace
from epochcast.regressor import Profile
from lab.simulator import CLASSES
from lab.simulator.scenario import Scenario, SimulatedProcess, observe
from lab.simulator.trace import SimulatedTrace

Array = NDArray[np.float64]

AMBIGUOUS = ("two_jobs", "changing")
"""Classes with more than one right answer."""

SLOW = ("sparse", "logged")
"""Classes that are not read at 10 Hz."""

TELEMETRY = ("nvml", "dcgm")
"""What a trace holds: the row's own metrics, or the simulator's profiling metrics next to them, as no public row has them."""

_PROFILING = ("gr_engine_active", "sm_active", "sm_occupancy", "tensor_active", "fp16_active", "fp32_active", "dram_active")
# Resolution of nvidia-smi, in base units.
_RESOLUTION = {
    "gpu_utilization": 0.01,
    "memory_utilization": 0.01,
    "power": 0.01,
    "sm_clock": 1e6,
    "temperature": 1.0,
    "memory_used": 2.0**20,
    "memory_free": 2.0**20,
}
_ATTEMPTS = 12
_MOST_STRETCH = 2.0
_LONGEST_S = 1800.0
_QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class SimulatedRow:
    """A trace and what is true of it.

    Attributes:
        trace: what a recorder would have written on the row's GPU.
        spans: (start, end) of every epoch in unix seconds, each to the start of the next one.
        cls: class of the simulator.
        telemetry: one of `TELEMETRY`.
    """

    trace: Trace
    spans: Sequence[tuple[float, float]]
    cls: str
    telemetry: str


def simulate_row(row: Profile, cls: str, telemetry: str, seed: int) -> SimulatedRow | None:
    """Simulate a row's job; None where no job of the class has epochs of about that length."""
    assert row.epoch_s is not None
    rng = np.random.default_rng([crc32(cls.encode()), seed])
    scenario = _stretched(cls, row.epoch_s, rng)
    if scenario is None:
        return None
    drawn = observe(cls, seed, scenario, rng)
    starts = drawn.epoch_starts
    spans = list(zip(starts, [*starts[1:], drawn.epoch_ends[-1]], strict=True))
    trace = make_trace(
        pd.DataFrame({"time": drawn.time, **with_statistics(drawn, row.metrics, rng, telemetry)}),
        {"gpu": row.gpu, "source": "simulated", "simulated": True},
        f"{cls} {seed}",
    )
    return SimulatedRow(trace, spans, cls, telemetry)


def _stretched(cls: str, epoch_s: float, rng: np.random.Generator) -> Scenario | None:
    """Of some jobs of a class the one whose epochs are nearest to a length, stretched to it."""
    best: tuple[float, Scenario] | None = None
    for _ in range(_ATTEMPTS):
        scenario = CLASSES[cls].draw(rng)
        assert isinstance(scenario, Scenario)
        timeline = scenario.processes[0].timeline
        if timeline.starts.size < 3:
            continue
        lengths = np.diff(timeline.marks()[0])
        factor = epoch_s / float(np.median(lengths[1:] if lengths.size > 1 else lengths))  # the first epoch is an unusual one
        stretch = float(abs(np.log(factor)))
        if factor * timeline.length_s > _LONGEST_S or stretch > np.log(_MOST_STRETCH):
            continue
        if best is None or stretch < best[0]:
            best = stretch, replace(scenario, processes=tuple(_at_speed(process, factor) for process in scenario.processes))
    return None if best is None else best[1]


def _at_speed(job: SimulatedProcess, factor: float) -> SimulatedProcess:
    plan = job.plan and replace(job.plan, step_s=job.plan.step_s * factor)
    return replace(job, timeline=replace(job.timeline, seconds=job.timeline.seconds * factor), plan=plan)


def with_statistics(
    drawn: SimulatedTrace, wanted: Mapping[str, Mapping[str, float]], rng: np.random.Generator, telemetry: str = "nvml"
) -> dict[str, Array]:
    """The trace's metrics, each (n,), with the wanted statistics over the whole job: first epoch to last."""
    job = np.ones(drawn.time.size, dtype=np.bool_)
    if drawn.epoch_starts.size:
        job = (drawn.time >= drawn.epoch_starts[0]) & (drawn.time < drawn.epoch_ends[-1])
    metrics = {
        name: mapped(drawn.metrics[name], job, statistics, _RESOLUTION[name], rng)
        for name, statistics in wanted.items()
        if name in _RESOLUTION
    }
    more = _PROFILING if telemetry == "dcgm" else ()
    return metrics | {name: drawn.metrics[name] for name in more if name in drawn.metrics}


def mapped(
    values: Array, job: NDArray[np.bool_], wanted: Mapping[str, float], resolution: float, rng: np.random.Generator
) -> Array:
    """Readings (n,) moved, in the order of size, so that those of the job have the wanted minimum, quartiles, maximum, mean.

    The quartiles leave open how far the tails beyond the outer two reach; one exponent for both meets the mean, or comes as
    near as it can. Readings outside of the job that are beyond its range get its minimum or maximum.
    """
    low, p25, p50, p75, high = (wanted[name] for name in ("min", "p25", "p50", "p75", "max"))
    values = values + resolution * rng.uniform(-0.5, 0.5, values.size)  # what rounding made equal has an order again
    counted = job & np.isfinite(values)
    readings = np.sort(values[counted])
    below, upto = (np.searchsorted(readings, values, side) for side in ("left", "right"))
    share = np.clip(((below + upto) / 2 - 0.5) / max(readings.size - 1, 1), 0.0, 1.0)
    middle = np.interp(share, _QUARTILES, (p25, p25, p50, p75, p75))
    under, over = np.clip(1 - 4 * share, 0, 1), np.clip(4 * share - 3, 0, 1)

    def bent(exponent: float) -> Array:
        # A larger exponent draws the lower tail up to its quartile; the upper one bends the other way, so the mean grows.
        return middle - (p25 - low) * under**exponent + (high - p75) * over ** (1 / exponent)

    def excess(logarithm: float) -> float:
        return float(bent(np.exp(logarithm))[counted].mean()) - wanted["mean"]

    ends = -4.0, 4.0
    if high == low or excess(ends[0]) >= 0:
        chosen = ends[0] if high > low else 0.0
    else:
        chosen = ends[1] if excess(ends[1]) <= 0 else float(brentq(excess, *ends))
    settled = np.clip(np.round(bent(float(np.exp(chosen))) / resolution) * resolution, low, high)
    return np.where(np.isfinite(values), settled, np.nan)
