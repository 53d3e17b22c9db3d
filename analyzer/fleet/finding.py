"""What the trace of one GPU shows: its jobs with their epochs and profiles, how much of it was idle, how whole the data are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from epochcast.analyzer.jobs.rhythm import Rhythm
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice, Report

RhythmJson = Annotated[
    Rhythm,
    PlainValidator(lambda rhythm: rhythm if isinstance(rhythm, Rhythm) else Rhythm.from_json(rhythm)),
    PlainSerializer(Rhythm.to_json, return_type=dict[str, Any]),
]


@dataclass(frozen=True)
class JobSpan:
    """One stretch of work of a GPU, with no long pause in it: a job, or a part of one.

    Attributes:
        trace: that it is in.
        start, end: unix seconds of the first and the last sample in which it worked.
        report: what was found in it, as the service has it of a GPU whose job is at this point (``report.job_since`` is
            ``start``), but for its epochs.
        epochs: all of them, oldest first; none where the detector is too unsure.
        busy_ratio: mean of the activity metric, 0..1; None where the trace has none.
        energy_j: joules drawn in it; None without power readings.
        memory_bytes: most GPU memory in use; None without readings of it.
        rhythm: of its newest part; None where it is too short, or no metric shows it.
    """

    trace: str
    start: float
    end: float
    report: Report
    epochs: tuple[EpochRecord, ...] = ()
    busy_ratio: float | None = None
    energy_j: float | None = None
    memory_bytes: float | None = None
    rhythm: RhythmJson | None = None

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


_FINDING = TypeAdapter(Finding)


def finding_json(finding: Finding) -> bytes:
    """A finding as JSON text."""
    return _FINDING.dump_json(finding)


def read_finding(text: str | bytes) -> Finding:
    """The finding in what `finding_json` gave; raises ValueError for anything else."""
    return _FINDING.validate_json(text)
