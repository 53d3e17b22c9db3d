"""From a trace to a profile: detect the epochs, then summarise each metric over them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from ..detector import Detection, detect
from ..regressor import Catalog, Gpu, Profile
from ..regressor.summary import summarise
from .errors import InputError
from .static_gpu import gpu_of
from .trace import Trace, read_trace

LEAST_CONFIDENCE = 0.8
"""Epochs that the detector is less sure of give no seconds: a wrong length is worse than the ratio alone."""

_ACTIVITY = ("gr_engine_active", "sm_active", "gpu_utilization")
_IDLE = 0.05

_TAIL = 0.05  # of a 90 % interval, on either side

# Standard deviation of log(found / true) where the tracker's period is wrong: a third is beyond a factor of two then, above or
# below, as were 12 of 33 wrong periods on 474 simulated traces (benchmarks/regressor/epoch_interval.py).
_WRONG = math.log(2)

# The tracker calls a period right that is within 5 % of the true one; one epoch alone tells nothing better.
_RIGHT = 0.05


@dataclass(frozen=True)
class Source:
    """A profile with what a reader of its answers should know.

    Attributes:
        name: the file that it came from.
        profile: the profile.
        gpu: the GPU that it was taken on; made of the trace's static attributes where no catalogue has it.
        notes: sentences on what was found beside it.
    """

    name: str
    profile: Profile
    gpu: Gpu
    notes: tuple[str, ...] = ()


def read_source(path: str, catalog: Catalog, gpu: str | None = None) -> Source:
    """The profile in a JSON file, or the one made of a trace (Parquet, CSV, ``-``) on the GPU named in it or by ``gpu``.

    Raises InputError, naming the file, for one that is neither and for a trace of no known GPU.
    """
    if not path.endswith(".json"):
        trace = read_trace(path)
        try:
            profile, found = profile_of(trace, catalog, gpu)
        except ValueError as error:  # the InputError of any room
            raise InputError(f"{path!r}: {error}") from error
        notes = (*_contradiction(trace, profile.gpu, catalog), *_notes(found))
        return Source(path, profile, gpu_of(profile.gpu, trace.static, catalog), notes)
    if gpu is not None:
        raise InputError(f"{path!r} is a profile and says its GPU itself; leave --gpu out")
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no such profile file: {path!r}") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or too long an integer
        raise InputError(f"{path!r} is not a readable profile: {error}") from error
    try:
        profile = Profile.from_json(content)
    except ValueError as error:
        raise InputError(f"{path!r}: {error}") from error
    return Source(path, profile, catalog.resolve(profile.gpu))


def with_own(catalog: Catalog, sources: Sequence[Source]) -> Catalog:
    """The catalogue and the GPUs that only the traces know, which can then be predicted from, and for."""
    own = {source.gpu.name: source.gpu for source in sources if source.gpu.name not in catalog}
    return Catalog([*catalog.values(), *own.values()]) if own else catalog


def profile_of(trace: Trace, catalog: Catalog, gpu: str | None = None) -> tuple[Profile, Detection]:
    """Detect the epochs of ``trace`` and summarise its metrics over them (paper section III-C, "Defining Input Features").

    The interval of ``epoch_s`` holds both what the epochs' scatter says (`summarise`) and how sure the tracker is of its period
    (`widened`). Epochs that are too unsure give no seconds. Steps have a length but no boundaries, so their statistics span the
    trace from the GPU's first activity to its last, and so do those of a trace in which neither is found. Without seconds the
    profile still gives ratios between GPUs. Where two jobs share the trace, the profile is of the main one, though in its
    epochs the metrics are those of both.
    """
    name = trace.gpu if gpu is None else gpu
    if name is None:
        raise InputError("the trace does not say which GPU it was recorded on; name it with --gpu")
    if trace.source == "host" and gpu is None:
        raise InputError(f"the trace is of a CPU ({name}), and predictions start from a GPU's telemetry; record on a GPU")
    device = gpu_of(name, trace.static, catalog)
    found = detect(trace.time, trace.metrics())
    if found.epochs:
        spans = [(epoch.start, epoch.end) for epoch in found.epochs]
        profile = summarise(device.name, trace.time, trace.metrics(), spans, simulated=trace.simulated)
        if found.confidence < LEAST_CONFIDENCE:  # where the job is, they still tell
            profile = replace(profile, epoch_s=None, unit=None, epoch_s_low=None, epoch_s_high=None)
    else:
        time, metrics = _busy_part(trace)
        profile = summarise(device.name, time, metrics, [], simulated=trace.simulated)
    if found.verdict == "steps":
        profile = replace(profile, epoch_s=found.step_s, unit="step")
    return widened(profile, found.confidence), found


def _busy_part(trace: Trace) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """The trace from the first reading of an active GPU to the last: no profile is made of waiting before and after a job.

    Active is above a twentieth of the highest reading of the first metric of ``_ACTIVITY`` that the trace has; without one, or
    without any activity, it is the whole trace.
    """
    time, metrics = trace.time, trace.metrics()
    activity = next((metrics[name] for name in _ACTIVITY if name in metrics), None)
    if activity is None or not np.isfinite(activity).any():
        return time, metrics
    busy = np.flatnonzero(activity > _IDLE * np.nanmax(activity))
    if not busy.size:
        return time, metrics
    part = slice(busy[0], busy[-1] + 1)
    return time[part], {name: values[part] for name, values in metrics.items()}


def widened(profile: Profile, confidence: float) -> Profile:
    """Widen the 90 % interval of ``epoch_s`` by the chance 1 − ``confidence`` that the tracker's period is wrong.

    The ends are the 5 % and 95 % quantiles of a mixture in log seconds: with probability ``confidence`` a normal distribution
    of the interval's own width, otherwise one as wide as wrong periods are. At confidence .97 this adds a tenth; below .9 the
    wrong periods alone fill the tails, and the interval says so. Without an interval of its own (one epoch, or steps) a right
    period is within 5 %, which is what the tracker's confidence is calibrated to.
    """
    if profile.epoch_s is None:
        return profile
    low, high = profile.epoch_s_low, profile.epoch_s_high
    below = _RIGHT if low is None else math.log(profile.epoch_s / low)
    above = _RIGHT if high is None else math.log(high / profile.epoch_s)
    return replace(
        profile,
        epoch_s_low=profile.epoch_s * math.exp(-_mixed(below, confidence)),
        epoch_s_high=profile.epoch_s * math.exp(_mixed(above, confidence)),
    )


def _mixed(half: float, confidence: float) -> float:
    """Where the mixture's tail is 5 %, given where that of its right part is, both in log seconds."""
    right = half / float(norm.isf(_TAIL))

    def excess(x: float) -> float:
        return float(confidence * norm.sf(x / right) + (1 - confidence) * norm.sf(x / _WRONG)) - _TAIL

    return half if excess(half) <= 0 else float(brentq(excess, half, max(half, _WRONG * float(norm.isf(_TAIL)))))


def _contradiction(trace: Trace, gpu: str, catalog: Catalog) -> tuple[str, ...]:
    """A sentence where the trace names another known GPU than the one that the user says."""
    if trace.gpu is None:
        return ()
    try:
        told = gpu_of(trace.gpu, trace.static, catalog).name
    except ValueError:  # the regressor's InputError: --gpu is there to say what such a name means
        return ()
    return () if told == gpu else (f"the trace says that it was recorded on {told}; by --gpu it counts as {gpu}",)


def _notes(found: Detection) -> tuple[str, ...]:
    notes = []
    if found.verdict == "epochs" and found.confidence < LEAST_CONFIDENCE:
        notes.append(
            f"there may be epochs of {found.period_s:.3g} s, but with confidence {found.confidence:.2f} they are too unsure to "
            "give seconds: record for longer, or with more metrics"
        )
    if len(found.jobs) > 1:
        notes.append(
            f"a second job shares the GPU (period {found.jobs[1].period_s:.3g} s): the answer is for the first one, "
            "and the metrics are those of both"
        )
    return tuple(notes)
