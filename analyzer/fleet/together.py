"""The GPUs of a job searched together where they differ, once it is known which these are: so they have one cycle.

Single searches differ by whole multiples where a job's steps are alike, and some see nothing (`detector.detect_job`). What a
GPU showed by itself stays in the store of findings; what it shows of its job is kept next to it, and redone where the job has
got another GPU.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.execution import Workers, worked_on
from epochcast.analyzer.fleet.finding import Failure, Finding, JobSpan, Quality
from epochcast.analyzer.fleet.findings_store import FindingsStore
from epochcast.analyzer.fleet.fleet_jobs import groups_of
from epochcast.analyzer.fleet.gpu_history import Looking, Trace, stretches_of
from epochcast.analyzer.fleet.quality import TraceQuality
from epochcast.analyzer.fleet.span_finding import HeldStretch, span_of
from epochcast.analyzer.fleet.spans_by_start import SpansByStart
from epochcast.analyzer.fleet.trace_folder import version_of
from epochcast.analyzer.fleet.trace_rows import MOST_ROWS
from epochcast.analyzer.telemetry.gpu_report import GpuDevice, Report
from epochcast.analyzer.traces.csv_text import one_line
from epochcast.detector import detect_job, elected
from epochcast.detector.confidence import SURE

log = logging.getLogger(__name__)

# Where what was found in jobs is kept.
_KEPT = "together.sqlite"

# Between a trace's name and a stretch's beginning: no name has it, and names stay in their order.
_THEN = "\0"


@dataclass(frozen=True)
class JobTraces:
    """Stretches of work that are one job: in each of ``traces`` the one that begins at ``starts`` [unix s].

    ``version``: another one where one of them is another one.
    """

    traces: tuple[Trace, ...]
    starts: tuple[float, ...]
    version: str

    @property
    def keys(self) -> list[str]:
        """What each of its stretches is kept under."""
        return [f"{trace.name}{_THEN}{start!r}" for trace, start in zip(self.traces, self.starts, strict=True)]


class Together:
    """The findings of a run, and what the GPUs of its jobs show together."""

    def __init__(self, store: FindingsStore, traces: Mapping[str, Trace], out: Path, looking: Looking) -> None:
        """Take the findings and the traces that they are of; ``out``: folder of the results."""
        self._store, self._traces, self._looking = store, traces, looking
        self._kept = FindingsStore(out / _KEPT)

    def searched(self, workers: Workers, *, seconds_of: Callable[[Trace], float]) -> Iterator[int]:
        """Search the jobs that were not before; yields the number of jobs that were done.

        Args:
            workers: who does it.
            seconds_of: how long one trace may take.

        Raises:
            InputError: the folder cannot be written.
            FleetError: there is nobody left to work.
        """
        jobs = list(self._jobs())
        self._kept.keep(key for job in jobs for key in job.keys)
        waiting = [job for job in jobs if any(self._kept.version(key) != job.version for key in job.keys)]
        for results in worked_on(
            ([job] for job in waiting),
            partial(_searched, self._looking),
            workers,
            seconds_of=lambda job: sum(map(seconds_of, job.traces)),
            failed=lambda job, why: _failures(job, why),
        ):
            if isinstance(results[0], Failure):
                log.warning("the GPUs of a job were not searched together: %s", results[0].error)
            self._kept.add(results)
            yield 1

    def findings(self) -> Iterator[Finding]:
        """What was found, in the order of the traces' names; of a job whose GPUs differed what they show together."""
        kept = groupby(self._kept.findings(), key=lambda finding: finding.trace.partition(_THEN)[0])
        trace, own = next(kept, ("", iter(())))
        for finding in self._store.findings():
            if finding.trace == trace:
                spans = {span.start: span for part in own for span in part.spans}
                finding = replace(finding, spans=tuple(spans.get(span.start, span) for span in finding.spans))
                trace, own = next(kept, ("", iter(())))
            yield finding

    def _jobs(self) -> Iterator[JobTraces]:
        spans = SpansByStart()
        for finding in self._store.findings():
            for span in finding.spans:
                spans.add(span)
        for own in (own for _, own in groups_of(spans) if not _agreed([span.report for span in own])):
            for part in _in_parts(own):
                traces, starts = tuple(self._traces[span.trace] for span in part), tuple(span.start for span in part)
                version = version_of([(trace.name, trace.version) for trace in traces], starts)
                yield JobTraces(traces, starts, version)


def _agreed(reports: Sequence[Report]) -> bool:
    """Whether all GPUs are sure of one cycle, and of what it is: then nothing is left to be decided."""
    sure = {
        place: report.detection.period_s
        for place, report in enumerate(reports)
        if report.detection.period_s is not None and report.detection.confidence >= SURE
    }
    units = {report.detection.unit for report in reports}
    return len(elected(sure)) == len(reports) and len(units) == 1 and units <= {"epoch", "step"}


def _in_parts(spans: Sequence[JobSpan]) -> Iterator[Sequence[JobSpan]]:
    """As many GPUs at once as have the rows of one that is searched alone; no GPU by itself."""
    at_once = MOST_ROWS // max(span.report.samples for span in spans) if spans else 0
    if len(spans) < 2 or at_once < 2:
        return
    parts = -(-len(spans) // at_once)
    size = -(-len(spans) // parts)
    for first in range(0, len(spans), size):
        if len(spans) - first > 1:
            yield spans[first : first + size]


def _searched(looking: Looking, batch: Sequence[JobTraces]) -> list[Finding | Failure]:
    """What the GPUs of each job show together; of one that fails nothing."""
    results: list[Finding | Failure] = []
    for job in batch:
        try:
            results += _findings(job, looking)
        except Exception as error:  # what each showed by itself is there: the others shall not wait for it
            results += _failures(job, f"{type(error).__name__}: {one_line(error)}")
    return results


def _findings(job: JobTraces, looking: Looking) -> Iterator[Finding]:
    held: list[tuple[GpuDevice, HeldStretch]] = []
    for trace, start in zip(job.traces, job.starts, strict=True):
        with trace.opened() as (device, rows), ExitStack() as stack:
            stretches = stretches_of(trace.name, rows, looking, TraceQuality())
            stack.callback(stretches.close)  # type: ignore[attr-defined]
            own = next((each for each in stretches if each.stretch.start <= start <= each.stretch.end), None)
            if own is None:
                raise InputError(f"{trace.name!r} has changed; run the analysis again")
            held.append((device, own))
    rows_of = [stretch.held.for_detector() for _, stretch in held]
    found = detect_job([(rows.time, rows.values) for rows in rows_of])
    nothing = Quality(rows=0, hertz=None, missing_ratio=0.0, longest_hole_s=0.0, metrics=())
    for key, trace, (device, stretch), detection in zip(job.keys, job.traces, held, found.gpus, strict=True):
        span, _ = span_of(trace.name, device, stretch, looking.catalog, detection)
        yield Finding(key, job.version, device, 0.0, 0.0, None, () if span is None else (span,), nothing)


def _failures(job: JobTraces, why: str) -> list[Finding | Failure]:
    return [Failure(key, job.version, f"{key.partition(_THEN)[0]!r} and its job's other GPUs: {why}") for key in job.keys]
