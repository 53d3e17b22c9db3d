"""The page's plots, in per cent of their width and height: epochs of a job, the time on every GPU model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.jobs.predict import Target
from epochcast.analyzer.service.page.axis import axis_around, axis_between, axis_from_zero
from epochcast.analyzer.telemetry.gpu_report import EpochRecord
from epochcast.analyzer.words import TimeUnit, count, length, time_unit
from epochcast.detector.confidence import ANSWERS

Plot = dict[str, Any]
"""Everything that a template draws of one plot; places are in per cent of it, ticks are places with texts."""


_LEAST_SHARE = 0.12  # of the middle length, shown above and below it: a change of some per cent is seen as what it is


def epoch_plot(
    epochs: Mapping[str, Sequence[EpochRecord]],
    *,
    since: float,
    expected: tuple[float, float] | None,
    names: Mapping[str, str],
    standing_out: str | None,
) -> Plot | None:
    """Draw the epochs of each GPU (by UUID) since the job began [unix s]; None without epochs.

    ``expected`` is the 90 % interval of the epoch length [s], drawn as a ``band`` (top and height); ``standing_out`` the GPU
    that holds the others up.
    """
    every = [(gpu, epoch) for gpu, records in epochs.items() for epoch in records]
    if not every:
        return None
    lengths = [epoch.seconds for _, epoch in every]
    end = max(epoch.end for _, epoch in every)
    begin = min(since, min(epoch.start for _, epoch in every))
    unit, since_unit = time_unit(lengths), time_unit([(end - begin) / 2])
    along = axis_between(0.0, (end - begin) / since_unit.seconds, 6)
    upward = axis_around([value / unit.seconds for value in (*lengths, *(expected or ()))], _LEAST_SHARE)
    marks = [
        {
            "left": along.place((epoch.start - begin) / since_unit.seconds),
            "right": along.place((epoch.end - begin) / since_unit.seconds),
            "top": round(100 - upward.place(epoch.seconds / unit.seconds), 3),
            "unsure": epoch.confidence < ANSWERS,  # drawn pale
            "standing_out": gpu == standing_out,
            "says": f"{f'{names[gpu]}: ' if len(epochs) > 1 else ''}{length(epoch.seconds)}, "
            f"ended {length(epoch.end - begin)} after the job began",
        }
        for gpu, epoch in every
    ]
    band = None
    if expected is not None:
        low, high = (upward.place(value / unit.seconds) for value in expected)
        band = (round(100 - high, 3), max(0.4, round(high - low, 3)))
    return {
        "marks": marks,
        "across": along.across(),
        "up": upward.up(),
        "unit": unit.name,
        "since_unit": since_unit.name,
        "band": band,
        "says": f"{count(len(every), 'epoch')} of {count(len(epochs), 'GPU')}, from {length(min(lengths))} to "
        f"{length(max(lengths))} long, in {length(end - begin)}.",
    }


def interval_plot(job: Job, own: str | None) -> Plot | None:
    """Draw the predictions of ``job``, fastest first; ``own`` is the model that the job runs on. None without predictions.

    ``unit`` is that of the seconds, None where there are only ratios; ``here`` where the job is now, if there is such a row.
    """
    if not job.predictions:
        return None
    known = [target.seconds for target in job.predictions]
    unit = None if None in known else time_unit(known)
    values = {target.gpu: _values(target, unit) for target in job.predictions}
    axis = axis_from_zero([value for three in values.values() for value in three])
    rows: list[Plot] = []
    for target in sorted(job.predictions, key=lambda target: values[target.gpu][1]):
        left, middle, right = (axis.place(value) for value in values[target.gpu])
        is_own = target.gpu == own or target.route == "measured"
        rows.append({"answer": target, "own": is_own, "left": left, "middle": middle, "right": right})
    here = next((row["middle"] for row in rows if row["own"]), None)
    return {"rows": rows, "unit": unit, "logarithmic": axis.logarithmic, "ticks": axis.across(), "here": here}


def _values(target: Target, unit: TimeUnit | None) -> tuple[float, float, float]:
    """Low, middle and high in ``unit``; the ratio's where there is none."""
    if unit is None or target.seconds is None or target.low is None or target.high is None:
        return target.ratio_low, target.ratio, target.ratio_high
    return target.low / unit.seconds, target.seconds / unit.seconds, target.high / unit.seconds
