"""Long lists: which GPUs, jobs and sources match, for the API and the web page alike, and where the next page begins.

Each item has a text that says where it is in its list, and the list is in the order of these. A page begins after such a text,
so an item that comes or goes meanwhile moves no other from one page to the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from epochcast.analyzer.jobs.watched import WatchedGpu, WatchedJob
from epochcast.analyzer.live.health import SourceStatus
from epochcast.analyzer.telemetry.gpu_report import State

if TYPE_CHECKING:
    from epochcast.analyzer.service.analysis import Snapshot

Item = TypeVar("Item")


@dataclass(frozen=True)
class ListPage(Generic[Item]):
    """One page of a list.

    Attributes:
        items: at most as many as the page may have.
        total: items of the list, on all pages.
        next: where the next page begins; None on the last one.
    """

    items: Sequence[Item]
    total: int
    next: str | None


def list_page(items: Sequence[Item], place: Callable[[Item], str], *, after: str = "", limit: int) -> ListPage[Item]:
    """Return the ``limit`` items that come after the place ``after``; ``items`` are in the order of their places."""
    first = bisect_right(items, after, key=place) if after else 0
    end = first + limit
    return ListPage(items[first:end], len(items), place(items[end - 1]) if end < len(items) else None)


def gpu_place(gpu: WatchedGpu) -> str:
    """By node and label; ``10`` comes after ``9``."""
    return " ".join((gpu.node, *(number.zfill(6) for number in gpu.label.split(".")), gpu.uuid))


def job_place(job: WatchedJob) -> str:
    """The newest first."""
    return f"{1e11 - (job.since or 0.0):019.6f} {job.id}"


def source_place(source: SourceStatus) -> str:
    """By kind and name."""
    return f"{source.kind} {source.name}"


def gpus_of(
    snapshot: Snapshot, *, node: str | None = None, job: str | None = None, state: State | None = None, q: str = ""
) -> list[WatchedGpu]:
    """Return the GPUs of a node, of a job, in a state, and with ``q`` in a name of theirs or of their job."""
    words = q.casefold()

    def texts(gpu: WatchedGpu) -> tuple[str | None, ...]:
        answer = snapshot.jobs.get(gpu.job or "")
        return gpu.uuid, gpu.node, gpu.name, gpu.model, gpu.job, None if answer is None else answer.title

    return [
        gpu
        for gpu in snapshot.gpus.values()
        if node in (None, gpu.node)
        and job in (None, gpu.job)
        and state in (None, gpu.state)
        and (not words or _in_one_of(words, texts(gpu)))
    ]


def jobs_of(snapshot: Snapshot, *, node: str | None = None, active: bool | None = None, q: str = "") -> list[WatchedJob]:
    """Return the jobs with a GPU on a node, that run now or not, and with ``q`` in a name of theirs, their nodes or GPUs."""
    words = q.casefold()
    return [
        job
        for job in snapshot.jobs.values()
        if active in (None, job.active)
        and (node is None or node in job.nodes)
        and (not words or _in_one_of(words, (job.title, job.id, job.gpu_model, job.best, *job.nodes, *job.gpus)))
    ]


def sources_of(sources: Iterable[SourceStatus], *, up: bool | None = None, q: str = "") -> list[SourceStatus]:
    """Return the sources that answer or not, and have ``q`` in their kind, name or error."""
    words = q.casefold()
    kept = (source for source in sources if up in (None, source.up))
    matching = (each for each in kept if not words or _in_one_of(words, (each.kind, each.name, each.error)))
    return sorted(matching, key=source_place)


def _in_one_of(words: str, texts: Iterable[str | None]) -> bool:
    return any(text is not None and words in text.casefold() for text in texts)
