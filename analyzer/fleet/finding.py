"""What the trace of one GPU shows: its jobs with their epochs and profiles, how much of it was idle, how whole the data are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from epochcast.analyzer.jobs.rhythm import Rhythm
from epochcast.analyzer.telemetry.gpu_report import MOST_EPOCHS, EpochRecord, GpuDevice, Report, read_report, report_json

SIMULATED = "the telemetry is simulated: no hardware was read"
"""What `Quality.problems` say of a simulated trace; it is no fault of the data, and kept apart from those."""


@dataclass(frozen=True)
class JobSpan:
    """One stretch of work of a GPU, with no long pause in it: a job, or a part of one.

    Attributes:
        start, end: unix seconds of the first and the last sample in which it worked.
        report: what was found in it, as the service has it of a GPU whose job is at this point (``report.job_since`` is
            ``start``); its epochs are the newest `MOST_EPOCHS`.
        epochs: all of them, oldest first; none where the detector is too unsure.
        busy_ratio: mean of the activity metric, 0..1; None where the trace has none.
        energy_j: joules drawn in it; None without power readings.
        memory_bytes: most GPU memory in use; None without readings of it.
        rhythm: of its newest part; None where it is too short, or no metric shows it.
    """

    start: float
    end: float
    report: Report
    epochs: tuple[EpochRecord, ...] = ()
    busy_ratio: float | None = None
    energy_j: float | None = None
    memory_bytes: float | None = None
    rhythm: Rhythm | None = None

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


@dataclass(frozen=True)
class Quality:
    """How whole a trace is.

    Attributes:
        rows: ticks that are there.
        hertz: of the trace, from the median distance of two ticks; None for fewer than three rows.
        missing_ratio: share of the ticks between the first and the last that are not there, 0..1.
        longest_hole_s: longest stretch without any tick [s].
        metrics: names of columns with at least one reading.
        silent_metrics: names of columns without any.
        problems: sentences on what keeps this trace from telling all that it could.
        holes_s: all holes longer than ten ticks and a second, together [s].
    """

    rows: int
    hertz: float | None
    missing_ratio: float
    longest_hole_s: float
    metrics: tuple[str, ...]
    silent_metrics: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    holes_s: float = 0.0


@dataclass(frozen=True)
class Finding:
    """One trace, analysed.

    Attributes:
        trace: what it is called: its path below what was analysed, or the GPU's UUID in a store.
        version: of its content (size and time of change, or the period that was queried) and of how it was looked at: another
            one is another question.
        device: which GPU.
        start, end: unix seconds of its first and last tick.
        idle_s: seconds of it in which the GPU did no work, holes not counted; None where no metric shows it.
        held_idle_s: seconds of it in which memory was held and nothing ran, between stretches of work too, holes not counted;
            None where no metric shows that.
        spans: stretches of work, oldest first.
        quality: of the data.
        cpu_s: processor seconds that it took.
    """

    trace: str
    version: str
    device: GpuDevice
    start: float
    end: float
    idle_s: float | None
    spans: tuple[JobSpan, ...]
    quality: Quality
    cpu_s: float = 0.0
    held_idle_s: float | None = None

    @property
    def seconds(self) -> float:
        """From its first tick to its last without its holes: a clock that jumps by years makes no years of telemetry."""
        return max(0.0, self.end - self.start - self.quality.holes_s)


@dataclass(frozen=True)
class Failure:
    """A trace that could not be analysed; the others were.

    Attributes:
        trace, version: as in `Finding`.
        error: one sentence: what, the value seen, the remedy.
    """

    trace: str
    version: str
    error: str


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON values. What it holds twice is written once: devices, and epochs of reports."""
    spans = [
        vars(span)
        | {
            "report": report_json(replace(span.report, epochs=())),
            "epochs": [[epoch.start, epoch.end, epoch.confidence] for epoch in span.epochs],
            "rhythm": None if span.rhythm is None else span.rhythm.to_json(),
        }
        for span in finding.spans
    ]
    device = asdict(finding.device) | {"static": dict(finding.device.static)}
    return vars(finding) | {"device": device, "spans": spans, "quality": asdict(finding.quality)}


def finding_from_json(data: Mapping[str, Any]) -> Finding:
    """Build a finding of what `finding_to_json` gave."""
    fields = data["quality"].items()
    quality: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in fields}
    parts: dict[str, Any] = {
        "device": GpuDevice(**data["device"]),
        "spans": tuple(map(_span, data["spans"])),
        "quality": Quality(**quality),
    }
    return Finding(**{**data, **parts})


def _span(data: Mapping[str, Any]) -> JobSpan:
    since = data["start"]
    epochs = tuple(EpochRecord(start, end, confidence, since) for start, end, confidence in data["epochs"])
    report = replace(read_report(data["report"]), epochs=epochs[-MOST_EPOCHS:])
    rhythm = None if data["rhythm"] is None else Rhythm.from_json(data["rhythm"])
    return JobSpan(**{**data, "report": report, "epochs": epochs, "rhythm": rhythm})
