"""The whole analysis: list the traces, reuse earlier results, run the rest on workers, then write tables and a report."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from epochcast import __version__
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.execution import Workers, in_batches, worked_on
from epochcast.analyzer.fleet.finding import Failure, Finding
from epochcast.analyzer.fleet.findings_store import STORE, FindingsStore
from epochcast.analyzer.fleet.gpu_history import Looking, Trace, analysed
from epochcast.analyzer.fleet.job_rows import job_rows
from epochcast.analyzer.fleet.report import write_report
from epochcast.analyzer.fleet.spans_by_start import SpansByStart
from epochcast.analyzer.fleet.summary import summary_of
from epochcast.analyzer.fleet.tables import writing
from epochcast.analyzer.fleet.together import Together
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.plain_json import plain, plain_json
from epochcast.common.files import write_whole

log = logging.getLogger(__name__)

# Traces that go to a worker together: a few seconds of work, and what a killed run loses.
_MOST_TRACES, _MOST_BYTES = 4, 2**24

# Seconds that one trace may take: a hundred times what ten minutes of telemetry do, and more for a large file.
_SECONDS, _SECONDS_PER_BYTE = 300.0, 2e-5


@dataclass
class Progress:
    """How far an analysis is.

    Attributes:
        traces: that there are.
        taken_over: found by an earlier run.
        done, failed: of this one.
        gpu_s: GPU-seconds of telemetry analysed by this one.
        seconds: since it began to analyse.
        searched: jobs whose GPUs differed and were searched together.
        jobs: predicted so far.
    """

    traces: int = 0
    taken_over: int = 0
    done: int = 0
    failed: int = 0
    gpu_s: float = 0.0
    seconds: float = 0.0
    searched: int = 0
    jobs: int = 0


def analyze(
    traces: Iterable[Trace],
    out: Path,
    looking: Looking,
    workers: Workers,
    advisor: Advisor,
    *,
    what: str,
    show: Callable[[Progress], object] = lambda progress: None,
) -> dict[str, Any]:
    """Analyse each trace that was not before, and write all results.

    Args:
        traces: what there is.
        out: folder of the results; nobody else writes into it (`live.state_file.alone_with`).
        looking: how they are looked at.
        workers: who does it.
        advisor: predicts and recommends.
        what: was analysed, for people.
        show: called with the progress, often.

    Returns:
        The content of ``summary.json``, with `Progress` as ``run`` next to it.

    Raises:
        InputError: there is no trace, or ``out`` cannot be written.
        FleetError: there is nobody left to work.
    """
    store, progress = FindingsStore(out / STORE), Progress()
    there = {trace.name: trace for trace in traces}
    if not there:
        raise InputError(f"there is no trace in {what}; name a folder with Parquet or CSV files of telemetry")
    store.keep(there)
    waiting = [trace for name, trace in sorted(there.items()) if store.version(name) != trace.version]
    progress.traces, progress.taken_over = len(there), len(there) - len(waiting)
    show(progress)
    began = time.monotonic()
    batches = in_batches(waiting, lambda trace: trace.size, most=_MOST_TRACES, most_bytes=_MOST_BYTES)
    for results in worked_on(batches, partial(analysed, looking), workers, seconds_of=_seconds, failed=_failed):
        store.add(results)
        progress.done += len(results)
        progress.failed += sum(isinstance(result, Failure) for result in results)
        progress.gpu_s += sum(result.seconds for result in results if isinstance(result, Finding))
        progress.seconds = time.monotonic() - began
        show(progress)
    together = Together(store, there, out, looking)
    for jobs in together.searched(workers, seconds_of=_seconds):
        progress.searched += jobs
        show(progress)

    def advance(jobs: int) -> None:
        progress.jobs += jobs
        show(progress)

    found = together.findings(), store.failures()
    summary = write_results(*found, advisor, out, analysed=what, workers=workers, advance=advance)
    return {**summary, "run": vars(replace(progress))}


def _seconds(trace: Trace) -> float:
    return _SECONDS + _SECONDS_PER_BYTE * trace.size


def _failed(trace: Trace, why: str) -> Sequence[Finding | Failure]:
    return [Failure(trace.name, trace.version, f"{trace.name!r} could not be analysed: {why}")]


SCHEMA = "epochcast.fleet-summary/v2"


def write_results(
    findings: Iterable[Finding],
    failures: Iterable[Failure],
    advisor: Advisor,
    out: Path,
    *,
    analysed: str,
    workers: Workers | None = None,
    advance: Callable[[int], object] = lambda jobs: None,
) -> dict[str, Any]:
    """Find the fleet's jobs, predict each, and write tables, summary and report; each file is complete or as before.

    Args:
        findings, failures: of every trace; each is read once.
        advisor: predicts and recommends; its limits say where a job may go.
        out: folder of the files.
        analysed: what was analysed, for people.
        workers: they predict where there are many jobs; None: this process does.
        advance: called with the number of further jobs done.

    Returns:
        The content of ``summary.json``: ``gpus``, ``jobs``, ``failed`` and all that the report shows.

    Raises:
        InputError: a file cannot be written.
        FleetError: there is nobody left to work.
    """
    spans = SpansByStart()
    try:
        with writing(out, advisor) as tables:
            for finding in findings:
                tables.add_finding(finding)
                for span in finding.spans:
                    spans.add(span)
            for failure in failures:
                tables.add("failures", vars(failure))
            for row in job_rows(spans, advisor, workers):
                tables.add("jobs", row)
                advance(1)
            tables.finish(out)
            copies = spans.added - len(spans)
    except sqlite3.Error as error:
        raise InputError(
            f"the stretches of work cannot be held: {error}; make room for temporary files (SQLITE_TMPDIR), and run the same "
            "command again"
        ) from error
    limits = advisor.configured.limits
    summary: dict[str, Any] = plain(
        {
            "schema": SCHEMA,
            "analysed": analysed,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": __version__,
            "oldest_price": advisor.oldest_price.isoformat(),
            "market": limits.market,
            "clouds": list(limits.clouds),
            "regions": list(limits.regions),
            **summary_of(out),
            "copies": copies,
        }
    )
    write_whole(out / "summary.json", lambda file: file.write(plain_json(summary).encode()))
    write_report(summary, out / "report.html")
    return summary
