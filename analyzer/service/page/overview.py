"""What the overview shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from epochcast.analyzer.jobs.watched import WatchedGpu, WatchedJob
from epochcast.analyzer.live.health import SourceStatus
from epochcast.analyzer.service.listing import ListPage, gpus_of, jobs_of, sources_of
from epochcast.analyzer.service.page import states
from epochcast.analyzer.words import count
from epochcast.extras import how_to_install

if TYPE_CHECKING:
    from epochcast.analyzer.service.analysis import Health, Snapshot


MOST = 50
"""GPUs, jobs and sources of a fleet that the overview shows as a whole."""

ROWS, FOUND = 20, 100
"""Of each table of a larger fleet: jobs, GPUs and sources are to be seen without scrolling far; and of what a search finds."""

_MOST_NAMED = 5  # jobs in the sentence that sums up the page

Item = TypeVar("Item")


def overview(
    snapshot: Snapshot, health: Health, sources: Sequence[SourceStatus], now: float, words: str = ""
) -> dict[str, Any]:
    """Return what the template shows of ``snapshot``, the service's ``health`` and its ``sources`` at ``now`` [unix s].

    With ``words`` the jobs, GPUs and sources that have them in a name. Lists of a large fleet are cut.
    """
    large = max(len(snapshot.gpus), len(snapshot.jobs), len(sources)) > MOST
    most = FOUND if words else ROWS if large else MOST
    gpus, every_gpu = gpus_of(snapshot, q=words), snapshot.gpus.values()
    if large:
        gpus.sort(key=lambda gpu: not states.is_lost(gpu, now))
    no_telemetry = states.no_telemetry(every_gpu, now)
    working = {gpu.uuid for gpu in every_gpu if states.is_working(gpu, now)}
    active = [job for job in snapshot.jobs.values() if job.active and not working.isdisjoint(job.gpus)]
    jobs, running = jobs_of(snapshot, q=words), {job.id for job in active}
    matching = sources_of(sources, q=words)
    return {
        "now": now,
        "snapshot": snapshot,
        "health": health,
        "service": states.of_service(health, every_gpu, now),
        "words": words,
        "large": large,
        "known": len(snapshot.gpus),
        "working": len(working),
        "jobs_now": len(active),
        "active": _cut([job for job in jobs if job.id in running], most),
        "ended": _cut([job for job in jobs if job.id not in running], most),
        "gpus": _cut(gpus, most),
        "sources": _cut(sorted(matching, key=lambda source: states.of_source(source).kind == "good"), most),
        "known_sources": len(sources),
        "no_telemetry": no_telemetry,
        "summary": no_telemetry or _summary(active),
        "how_to_install": how_to_install(),
    }


def _cut(items: Sequence[Item], most: int) -> ListPage[Item]:
    """The first ones, and how many there are."""
    return ListPage(items[:most], len(items), None)


def hardware(job: WatchedJob, gpus: Mapping[str, WatchedGpu]) -> str:
    """``4 × A10G``; the driver's names where the catalogue has none."""
    names = {gpus[uuid].name for uuid in job.gpus if uuid in gpus}
    return f"{len(job.gpus)} × {job.gpu_model or ' and '.join(sorted(names)) or 'GPU'}"


def where(nodes: Sequence[str]) -> str:
    """The nodes, at most three by name."""
    if len(nodes) <= 3:
        return ", ".join(nodes)
    return f"{nodes[0]}, {nodes[1]} and {len(nodes) - 2} more"


def _summary(active: Sequence[WatchedJob]) -> str:
    """The page in a sentence; read aloud when it changes."""
    if not active:
        return "No job is running now."
    known = sum(job.epoch_s is not None for job in active)
    jobs = f"{count(len(active), 'job')} on {count(sum(len(job.gpus) for job in active), 'GPU')}"
    slow = [job.title for job in active if job.straggler]
    summary = f"{jobs} now; the epoch or step time is known for {known}."
    if not slow:
        return summary
    more = f" and {count(len(slow) - _MOST_NAMED, 'more job')}" if len(slow) > _MOST_NAMED else ""
    return f"{summary} One GPU holds up the others in {', '.join(slow[:_MOST_NAMED])}{more}."
