"""From what was found on each GPU to what is said of the fleet: ``jobs.parquet``, ``summary.json`` and ``report.html``."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ... import __version__
from ..answers.advisor import Advisor
from ..errors import InputError
from ..files import write_whole
from ..plain_json import plain, plain_json
from .finding import Failure, Finding
from .fleet_jobs import FleetJob, jobs_of
from .gpu_price import GpuPrices
from .gpu_tally import GpuTally
from .job_tally import JobTally
from .jobs_table import write_jobs
from .report import write_report
from .spans_by_start import SpansByStart

SCHEMA = "epochcast.fleet-summary/v1"

# Where stretches of work lie until their jobs are known; of no use afterwards.
_SCRATCH = ".spans.sqlite"


def write_answers(
    findings: Iterable[Finding],
    failures: Iterable[Failure],
    advisor: Advisor,
    out: Path,
    *,
    analysed: str,
    advance: Callable[[int], object] = lambda jobs: None,
) -> dict[str, Any]:
    """Find the fleet's jobs, predict each, and write what is said of all of it; each file appears whole or not at all.

    Args:
        findings, failures: of every trace; each is gone through once and nothing of it is held but a scratch file.
        advisor: predicts and recommends; its limits say where a job may go.
        out: folder of the files.
        analysed: what was analysed, for people.
        advance: told of so many more jobs.

    Returns:
        The content of ``summary.json``: ``gpus``, ``jobs``, ``failed`` and all that the report shows.

    Raises:
        InputError: a file cannot be written.
    """
    gpus, jobs = GpuTally(GpuPrices(advisor)), JobTally()
    try:
        with SpansByStart(out / _SCRATCH) as spans:
            for finding in findings:
                gpus.add(finding)
                for span in finding.spans:
                    spans.add(finding.trace, span)
            for failure in failures:
                gpus.fail(failure)
            copies = spans.added - len(spans)
            told = jobs.counted(jobs_of(spans, advisor))
            write_whole(out / "jobs.parquet", lambda file: write_jobs(_advancing(told, advance), file))
    except sqlite3.Error as error:
        raise InputError(f"cannot write into {str(out)!r}: {error}; make room, and run the same command again") from error
    limits = advisor.renting.limits
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
            **gpus.to_json(),
            **jobs.to_json(gpus.hours, gpus.coverage),
            "copies": copies,
        }
    )
    write_whole(out / "summary.json", lambda file: file.write(plain_json(summary).encode()))
    write_report(summary, out / "report.html")
    return summary


def _advancing(jobs: Iterable[FleetJob], advance: Callable[[int], object]) -> Iterator[FleetJob]:
    for job in jobs:
        yield job
        advance(1)
