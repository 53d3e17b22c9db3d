"""The answers to a fleet's jobs: by workers where there are many, and always in the same order.

A prediction takes more than all else that is done for a job, and no two depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from epochcast.analyzer.fleet.execution import Workers, in_batches, worked_on
from epochcast.analyzer.fleet.fleet_jobs import FleetJob, UnansweredJob, answered, unanswered
from epochcast.analyzer.fleet.jobs_table import row_of
from epochcast.analyzer.fleet.spans_by_start import SpansByStart
from epochcast.analyzer.jobs.advisor import Advisor

# Jobs that go to a worker together, about a second of work, and stretches of them: with each batch goes the model, 2.5 MB.
_MOST_JOBS, _MOST_SPANS = 50, 400

# Seconds that one job may take: a thousand times what most do.
_SECONDS = 30.0

# Of so few stretches the jobs are answered sooner than processes start.
_FEW = 100

JobRow = tuple[FleetJob, dict[str, Any]]


def jobs_of(spans: SpansByStart, advisor: Advisor, workers: Workers | None = None) -> Iterator[JobRow]:
    """Yield the jobs of a fleet, about by their beginning, each once with its row of `jobs_table`.

    Args:
        spans: all stretches of work; they are never held all at once.
        advisor: predicts and recommends.
        workers: they do it where there are many; None: this process does.

    Raises:
        FleetError: there is nobody left to work.
    """
    jobs = unanswered(spans)
    if workers is None or len(spans) <= _FEW:
        yield from (_answered(advisor, job) for job in jobs)
        return
    batches = in_batches(jobs, lambda job: len(job.spans), most=_MOST_JOBS, most_bytes=_MOST_SPANS)
    done: dict[int, JobRow] = {}
    following = 0
    for results in worked_on(
        batches, partial(_slim, advisor), workers, seconds_of=lambda _: _SECONDS, failed=partial(_failed, advisor)
    ):
        done |= results
        while following in done:
            yield done.pop(following)
            following += 1


def _answered(advisor: Advisor, job: UnansweredJob, *, unpredicted: str | None = None) -> JobRow:
    known = answered(job, advisor, unpredicted=unpredicted)
    return known, row_of(known)


def _slim(advisor: Advisor, batch: Sequence[UnansweredJob]) -> dict[int, JobRow]:
    """Each job by its number, without what its row alone shows: the way back from a worker costs too."""
    done = {job.number: _answered(advisor, job) for job in batch}
    return {number: (job.without_predictions(), row) for number, (job, row) in done.items()}


def _failed(advisor: Advisor, job: UnansweredJob, why: str) -> dict[int, JobRow]:
    return {job.number: _answered(advisor, job, unpredicted=why)}
