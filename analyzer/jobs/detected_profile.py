"""From what the detector found to a profile, of a whole trace and while a job runs. Loads no more than numpy and scipy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from epochcast.analyzer.traces.held_idle import held_idle_s
from epochcast.detector import Cycle, Detection, detect
from epochcast.detector.confidence import SURE
from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.profile import Profile
from epochcast.regressor.summary import summarise

LEAST_CONFIDENCE = SURE
"""Epochs and steps that the detector is less sure of give no seconds: a wrong length is worse than the ratio alone."""

Array = NDArray[np.float64]

_ACTIVITY = ("gr_engine_active", "sm_active", "gpu_utilization")
_IDLE = 0.05

_TAIL = 0.05  # of a 90 % interval, on either side
_TAIL_AT = -float(ndtri(_TAIL))  # standard deviations

# Standard deviation of log(found / true) where the tracker's period is wrong: a third is beyond a factor of two then, above or
# below, as were 12 of 33 wrong periods on 474 simulated traces (lab/speed/regressor/epoch_interval.py).
_WRONG = math.log(2)

# The tracker calls a period right that is within 5 % of the true one; a single epoch gives nothing better.
_RIGHT = 0.05


def detect_epochs(time: Array, metrics: Mapping[str, Array], pipeline: Pipeline) -> Detection:
    """Find the epochs of one GPU; the paper's passes run over what it cropped its traces to, the time of the training.

    Args:
        time: (n,) unix seconds.
        metrics: name -> (n,) base units.
        pipeline: whose detection.

    Raises:
        InputError (of the detector): unusable samples, or too few.
    """
    return detect(time, metrics) if pipeline == "default" else detect(*busy_part(time, metrics), method="paper")


def is_sure(detection: Detection) -> bool:
    """Whether its seconds count: the paper's passes have no confidence, and are run only where a user wants what they find."""
    return detection.confidence >= LEAST_CONFIDENCE or detection.method == "paper"


def profile_of_detection(
    gpu: str,
    time: Array,
    metrics: Mapping[str, Array],
    detection: Detection | None,
    *,
    simulated: bool,
    first_epoch: bool = True,
) -> Profile:
    """Summarise a job's metrics over the epochs found in them (paper section III-C, "Defining Input Features").

    The interval of ``epoch_s`` holds both what the epochs' scatter says (`summarise`) and how sure the tracker is of its period
    (`widened`). Epochs and steps that are too unsure give no seconds. Steps have a length but no boundaries, so their
    statistics span from the GPU's first activity to its last, and so do those where neither is found. Without seconds the
    profile still gives ratios between GPUs. Where two jobs share the GPU, the profile is of the main one, though in its epochs
    the metrics are those of both. What the job waits for its checkpoints is known where they show as a cycle. Seconds held
    but idle count from the GPU's first activity to its last.

    Args:
        gpu: its name in the catalogue.
        time: (n,) unix seconds.
        metrics: name -> (n,) base units, NaN where there is no reading.
        detection: the answer of the detector; None for nothing yet.
        simulated: no hardware was read.
        first_epoch: the first of the epochs is the first of its job, to be left out if there are others; else it already is.

    Raises:
        InputError (of the regressor): values that no profile can hold.
    """
    sure = detection is not None and is_sure(detection)
    work = busy_part(time, metrics)
    if detection is not None and detection.epochs:
        spans = [(epoch.start, epoch.end) for epoch in detection.epochs]
        profile = summarise(gpu, time, metrics, spans, exclude_first=first_epoch, simulated=simulated)
        if not first_epoch:
            profile = replace(profile, first_epoch_excluded=True)
        if sure:
            profile = replace(profile, unit=detection.unit)
        else:  # they still show where the job is
            profile = replace(profile, epoch_s=None, unit=None, epoch_s_low=None, epoch_s_high=None)
    else:
        profile = summarise(gpu, *work, [], simulated=simulated)
    profile = replace(profile, held_idle_s=held_idle_s(*work))
    if detection is None:
        return profile
    if detection.verdict == "steps" and sure:
        assert detection.step_s is not None
        steps = round((work[0][-1] - work[0][0]) / detection.step_s) if detection.unit == "step" else 0
        profile = replace(profile, epoch_s=detection.step_s, unit=detection.unit, epochs=steps)
    if detection.method == "known" and profile.epoch_s is None:  # of a known length, and unknown boundaries
        profile = replace(profile, epoch_s=detection.period_s, unit="epoch")
    if detection.method == "paper":  # its epoch is the mean distance of peaks, and it knows no interval
        return replace(profile, epoch_s=detection.period_s, epoch_s_low=None, epoch_s_high=None)
    return widened(replace(profile, wait_share=_checkpoint_share(detection.cycles)), detection.confidence)


def _checkpoint_share(cycles: Sequence[Cycle]) -> float:
    """The share of the time that a job waits for its checkpoints, by its cycles."""
    waits = [cycle.boundary_idle_s / cycle.period_s for cycle in cycles if cycle.kind == "checkpoint" and cycle.boundary_idle_s]
    return min(sum(waits), 1.0)


def busy_part(time: Array, metrics: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
    """The samples from the first reading of an active GPU to the last: no profile is made of waiting before and after a job.

    Active is above a twentieth of the highest reading of the first metric of ``_ACTIVITY`` that there is; without one, or
    without any activity, it is all of them.
    """
    activity = next((metrics[name] for name in _ACTIVITY if name in metrics), None)
    if activity is None or not np.isfinite(activity).any():
        return time, dict(metrics)
    busy = np.flatnonzero(activity > _IDLE * np.nanmax(activity))
    if not busy.size:
        return time, dict(metrics)
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
    right = half / _TAIL_AT

    def excess(x: float) -> float:
        return float(confidence * ndtr(-x / right) + (1 - confidence) * ndtr(-x / _WRONG)) - _TAIL

    return half if excess(half) <= 0 else float(brentq(excess, half, max(half, _WRONG * _TAIL_AT)))
