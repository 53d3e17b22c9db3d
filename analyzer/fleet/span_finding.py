"""One stretch of work: its epochs by the batch detector, its profile, and what it cost in energy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.fleet.finding import JobSpan
from epochcast.analyzer.fleet.stretches import BusyStretch
from epochcast.analyzer.fleet.trace_rows import Piece, SpanRows
from epochcast.analyzer.jobs.cycles import second_job
from epochcast.analyzer.jobs.detected_profile import LEAST_CONFIDENCE, profile_of_detection
from epochcast.analyzer.jobs.rhythm import rhythm_of
from epochcast.analyzer.telemetry.gpu_report import NOTHING, EpochRecord, GpuDevice, Report
from epochcast.analyzer.traces.detection_json import reported
from epochcast.analyzer.traces.static_gpu import gpu_of
from epochcast.detector import Detection, detect
from epochcast.detector import InputError as DetectorError
from epochcast.regressor import Catalog
from epochcast.regressor.profile import Profile

Array = NDArray[np.float64]

# How much of the time the GPU works, the best first.
_BUSY = ("gr_engine_active", "sm_active", "gpu_utilization")

# A first boundary within this share of a period from where rows begin is none: its epoch had begun before (`live.gpu_watch`).
_NEAR = 0.2


@dataclass(frozen=True)
class HeldStretch:
    """A stretch of work that is to be analysed.

    Attributes:
        stretch: when the GPU worked.
        held: its rows.
        main: the metric of the activity; None where there is none.
        step_s: seconds between rows.
        cut: rows begin here, so the job may have begun before.
    """

    stretch: BusyStretch
    held: SpanRows
    main: str | None
    step_s: float
    cut: bool


def span_of(
    trace: str, device: GpuDevice, work: HeldStretch, catalog: Catalog, detection: Detection | None = None
) -> tuple[JobSpan | None, list[str]]:
    """Analyse a stretch.

    Args:
        trace: that it is in.
        device: which GPU.
        work: the stretch.
        catalog: names of GPUs.
        detection: of it, where all GPUs of its job were searched together; else it is searched by itself.

    Returns:
        The span, None if it has no rows, and sentences on what is missing in it.
    """
    stretch, held, main, step_s = work.stretch, work.held, work.main, work.step_s
    rows = held.for_detector()
    busy = _working(rows, stretch, main)
    if not busy.size:
        return None, []
    start, end = float(rows.time[busy[0]]), float(rows.time[busy[-1]])
    problems: list[str] = []
    if held.thinned > 1:
        hours, shortest = stretch.seconds / 3600, 10 * held.thinned * step_s
        problems.append(
            f"{hours:.3g} h of work without a pause were thinned to means of {held.thinned} rows: "
            f"epochs shorter than {shortest:.3g} s cannot be seen in them"
        )
    try:
        detection = detection or detect(rows.time, rows.values)
    except DetectorError as error:
        problems.append(f"no search for epochs: {error}")
    if detection is not None and (other := second_job(detection)) is not None:
        problems.append(other)
    late = work.cut and detection is not None and _begun_before(detection, rows)
    if late and detection is not None:
        detection = replace(detection, epochs=detection.epochs[1:])
    profile = None
    if device.source != "host":
        try:
            profile = _profile(device, held, detection, catalog, first_epoch=not late)
        except ValueError as error:  # the InputError of any room
            problems.append(f"no profile, so no prediction: {error}")
    inside = slice(busy[0], busy[-1] + 1)
    part = Piece(rows.time[inside], {name: values[inside] for name, values in rows.values.items()})
    activity = None if main is None else part.values.get(main)
    epochs = _records(detection, start)
    return (
        JobSpan(
            trace=trace,
            start=start,
            end=end,
            report=_report(device, detection, profile, len(epochs), start, part, step_s),
            epochs=epochs,
            busy_ratio=next((mean for name in _BUSY if (mean := _mean(part.values.get(name))) is not None), None),
            energy_j=_energy(part),
            memory_bytes=_most(part.values.get("memory_used")),
            rhythm=None if activity is None else rhythm_of(main or "", part.time, activity, held.thinned * step_s),
        ),
        problems,
    )


def _working(rows: Piece, stretch: BusyStretch, main: str | None) -> NDArray[np.intp]:
    inside = (rows.time >= stretch.start) & (rows.time <= stretch.end)
    if main is not None and stretch.threshold is not None and main in rows.values:
        above = rows.values[main] > stretch.threshold
        if (inside & above).any():
            inside &= above
    return np.flatnonzero(inside)


def _begun_before(detection: Detection, rows: Piece) -> bool:
    """Whether the first epoch had begun before the first row."""
    if not detection.epochs or detection.period_s is None:
        return False
    return detection.epochs[0].start - float(rows.time[0]) <= _NEAR * detection.period_s


def _profile(device: GpuDevice, held: SpanRows, detection: Detection | None, catalog: Catalog, *, first_epoch: bool) -> Profile:
    gpu = gpu_of(device.name, device.static, catalog).name
    time, values = held.for_profile()
    return profile_of_detection(gpu, time, values, detection, simulated=device.simulated, first_epoch=first_epoch)


def _records(detection: Detection | None, since: float) -> tuple[EpochRecord, ...]:
    """The epochs; none where the detector is too unsure: a wrong one is worse."""
    if detection is None or detection.verdict != "epochs" or detection.confidence < LEAST_CONFIDENCE:
        return ()
    return tuple(
        EpochRecord(epoch.start, epoch.end, float(np.clip(epoch.confidence, 0, 1)), since) for epoch in detection.epochs
    )


def _report(
    device: GpuDevice,
    detection: Detection | None,
    profile: Profile | None,
    epochs: int,
    since: float,
    rows: Piece,
    step_s: float,
) -> Report:
    return Report(
        device=device,
        state="searching" if detection is None or detection.verdict == "none" else "answered",
        detection=NOTHING if detection is None else reported(detection),
        job_since=since,
        epochs_seen=epochs,
        profile=profile,
        last_sample=float(rows.time[-1]),
        samples=rows.time.size,
        hertz=1 / step_s,
    )


def _mean(values: Array | None) -> float | None:
    return None if values is None or np.isnan(values).all() else float(np.nanmean(values))


def _most(values: Array | None) -> float | None:
    return None if values is None or np.isnan(values).all() else float(np.nanmax(values))


def _energy(rows: Piece) -> float | None:
    """Joules by the counter, whose resets do not count; else by the power, which is held between readings."""
    counter: Array | None = rows.values.get("energy")
    if counter is not None and np.count_nonzero(~np.isnan(counter)) > 1:
        return float(np.maximum(np.diff(counter[~np.isnan(counter)]), 0.0).sum())
    mean = next((mean for name in ("power", "power_average") if (mean := _mean(rows.values.get(name))) is not None), None)
    return None if mean is None else mean * float(rows.time[-1] - rows.time[0])
