"""Long lists, a page at a time: jobs, GPUs, nodes and sources, by name and state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlencode

from epochcast.analyzer.live.health import SourceStatus
from epochcast.analyzer.service.listing import (
    ListPage,
    gpu_place,
    gpus_of,
    job_place,
    jobs_of,
    list_page,
    source_place,
    sources_of,
)
from epochcast.analyzer.service.page.nodes import by_node, node_row
from epochcast.analyzer.service.page.overview import gpu_row, job_row, source_row
from epochcast.analyzer.telemetry.gpu_report import State

if TYPE_CHECKING:
    from epochcast.analyzer.service.analysis import Snapshot

_ROWS = 100

JobState = Literal["", "running", "ended"]
GpuState = Literal["", "idle", "searching", "answered"]
SourceState = Literal["", "up", "down"]

Item = TypeVar("Item")
Row = TypeVar("Row")


def jobs_list(snapshot: Snapshot, now: float, *, words: str, state: JobState, node: str, after: str) -> dict[str, Any]:
    """Return what the template shows of the jobs, on one node where it is given."""
    jobs = jobs_of(snapshot, node=node or None, active={"": None, "running": True, "ended": False}[state], q=words)
    choices = {"": "running and ended", "running": "running", "ended": "ended"}
    title = f"Jobs on {node}" if node else "Jobs"
    return {
        **_list("jobs", title, words, state, choices, {"node": node}),
        "now": now,
        "taken_at": snapshot.taken_at,
        "page": _page(jobs, job_place, after, lambda job: job_row(job, snapshot, now)),
    }


def gpus_list(
    snapshot: Snapshot, now: float, *, words: str, state: GpuState, node: str, job: str, after: str
) -> dict[str, Any]:
    """Return what the template shows of the GPUs, of one node or job where it is given."""
    wanted: State | None = state or None
    gpus = gpus_of(snapshot, node=node or None, job=job or None, state=wanted, q=words)
    choices = {"": "in every state", "idle": "idle", "searching": "searching", "answered": "answered"}
    of = node or (snapshot.jobs[job].title if job in snapshot.jobs else job)
    return {
        **_list("gpus", f"GPUs of {of}" if of else "GPUs", words, state, choices, {"node": node, "job": job}),
        "now": now,
        "taken_at": snapshot.taken_at,
        "page": _page(gpus, gpu_place, after, lambda gpu: gpu_row(gpu, snapshot, now)),
    }


def nodes_list(snapshot: Snapshot, now: float, *, words: str, after: str) -> dict[str, Any]:
    """Return what the template shows of the nodes that have a GPU that matches."""
    nodes = list(by_node(gpus_of(snapshot, q=words)).values())
    return {
        **_list("nodes", "Nodes", words),
        "now": now,
        "taken_at": snapshot.taken_at,
        "page": _page(nodes, lambda node: node[0].node, after, lambda node: node_row(node, snapshot, now)),
    }


def sources_list(sources: Sequence[SourceStatus], now: float, *, words: str, state: SourceState, after: str) -> dict[str, Any]:
    """Return what the template shows of the telemetry sources."""
    matching = sources_of(sources, up={"": None, "up": True, "down": False}[state], q=words)
    choices = {"": "up and down", "up": "up", "down": "down"}
    return {
        **_list("sources", "Telemetry sources", words, state, choices),
        "now": now,
        "taken_at": now,
        "page": _page(matching, source_place, after, source_row),
    }


def _page(items: Sequence[Item], place: Callable[[Item], str], after: str, row: Callable[[Item], Row]) -> ListPage[Row]:
    page = list_page(items, place, after=after, limit=_ROWS)
    return ListPage([row(item) for item in page.items], page.total, page.first, page.next, page.previous)


def _list(
    what: str,
    title: str,
    words: str,
    state: str = "",
    choices: Mapping[str, str] | None = None,
    kept: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The heading, the form, and the links to other pages; ``kept`` goes along with them."""
    query = {"q": words, "state": state, **(kept or {})}
    return {
        "what": what,
        "title": title,
        "words": words,
        "state": state,
        "choices": choices or {},
        "kept": kept or {},
        "link": partial(_link, {name: value for name, value in query.items() if value}),
    }


def _link(query: Mapping[str, str], after: str) -> str:
    return urlencode({**query, **({"after": after} if after else {})})
