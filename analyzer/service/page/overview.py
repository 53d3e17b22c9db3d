"""What the overview shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....extras import how_to_install
from ...answers.answer_schema import GpuAnswer, JobAnswer, JobSummary
from ...telemetry.gpu_report import Report
from ...words import count
from . import states
from .plots import trend
from .states import State

if TYPE_CHECKING:
    from ..analysis import Snapshot
    from ..health import Health


@dataclass(frozen=True)
class JobRow:
    """A job in the overview's table.

    Attributes:
        trend: points of a small line of its epochs' lengths.
        advice: what the verdict on its page says to do; None without a recommendation.
    """

    job: JobSummary
    state: State
    hardware: str
    where: str
    trend: str | None
    advice: str | None


@dataclass(frozen=True)
class GpuRow:
    """A GPU in a table; ``title``: of its job, None where that is not known."""

    gpu: GpuAnswer
    state: State
    title: str | None


@dataclass(frozen=True)
class SourceRow:
    """A telemetry source; ``age``: seconds since its newest sample, where known."""

    source: Mapping[str, Any]
    state: State
    age: float | None


def overview(snapshot: Snapshot, health: Health, now: float) -> dict[str, Any]:
    """Return what the template shows of ``snapshot`` and the service's ``health`` at ``now`` [unix s]."""
    jobs = sorted(snapshot.jobs.values(), key=lambda job: (-(job.since or 0.0), job.id))
    rows = [_job_row(job, snapshot, now) for job in jobs]
    gpus = gpu_rows(list(snapshot.gpus.values()), snapshot, now)
    no_telemetry = states.no_telemetry(snapshot.gpus.values(), now)
    working = {row.gpu.uuid for row in gpus if row.state.word not in states.NOT_WORKING}
    active = [row for row in rows if row.job.active and working.intersection(row.job.gpus)]
    return {
        "now": now,
        "taken_at": snapshot.taken_at,
        "health": health,
        "service": states.of_service(health, snapshot.gpus.values(), now),
        "active": active,
        "ended": [row for row in rows if row not in active],
        "gpus": gpus,
        "working": len(working),
        "sources": [SourceRow(source, states.of_source(source), source.get("lag_s")) for source in health.sources],
        "up": sum(bool(source.get("up")) for source in health.sources),
        "no_telemetry": no_telemetry,
        "summary": no_telemetry or _summary(active),
        "how_to_install": how_to_install(),
    }


def _job_row(job: JobAnswer, snapshot: Snapshot, now: float) -> JobRow:
    verdict = None if job.recommendation is None else job.recommendation.verdict
    return JobRow(
        job,
        states.of_job(job, snapshot.gpus, now),
        hardware(job, snapshot.gpus),
        where(job.nodes),
        _trend(job, snapshot.reports),
        None if verdict is None else verdict.action,
    )


def gpu_rows(gpus: list[GpuAnswer], snapshot: Snapshot, now: float) -> list[GpuRow]:
    """Rows of GPUs by node and label; ``10`` comes after ``9``."""
    titles = {job.id: job.title for job in snapshot.jobs.values()}
    ordered = sorted(gpus, key=lambda gpu: (gpu.node, [part.zfill(6) for part in gpu.label.split(".")], gpu.uuid))
    return [GpuRow(gpu, states.of_gpu(gpu, now), titles.get(gpu.job or "")) for gpu in ordered]


def hardware(job: JobSummary, gpus: Mapping[str, GpuAnswer]) -> str:
    """``4 × A10G``; the driver's names where the catalogue has none."""
    names = {gpus[uuid].name for uuid in job.gpus if uuid in gpus}
    return f"{len(job.gpus)} × {job.gpu_model or ' and '.join(sorted(names)) or 'GPU'}"


def where(nodes: list[str]) -> str:
    """The nodes, at most three by name."""
    if len(nodes) <= 3:
        return ", ".join(nodes)
    return f"{nodes[0]}, {nodes[1]} and {len(nodes) - 2} more"


def _trend(job: JobSummary, reports: Mapping[str, Report]) -> str | None:
    """Of the GPU with the most epochs: those of a job end together."""
    since = (job.since or 0.0) - 1.0
    last = float("inf") if job.last_epoch_end is None else job.last_epoch_end + 1.0
    held = [
        [epoch for epoch in reports[uuid].epochs if epoch.start >= since and epoch.end <= last]
        for uuid in job.gpus
        if uuid in reports
    ]
    return trend(max(held, key=len, default=[]))


def _summary(active: list[JobRow]) -> str:
    """The page in a sentence; read aloud when it changes."""
    if not active:
        return "No job is running now."
    known = sum(row.job.epoch_s is not None for row in active)
    jobs = f"{count(len(active), 'job')} on {count(sum(len(row.job.gpus) for row in active), 'GPU')}"
    slow = [row.job.title for row in active if row.job.straggler]
    summary = f"{jobs} now; the time of an epoch or step is known for {known}."
    return f"{summary} One GPU holds up the others in {', '.join(slow)}." if slow else summary
