"""Long lists, a page at a time: jobs, GPUs, nodes and sources, by name and state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlencode

from epochcast.analyzer.live.health import SourceStatus
from epochcast.analyzer.service.listing import (
    gpu_place,
    gpus_of,
    job_place,
    jobs_of,
    list_page,
    source_place,
    sources_of,
)
from epochcast.analyzer.service.page.overview import by_node
from epochcast.analyzer.telemetry.gpu_report import State

if TYPE_CHECKING:
    from epochcast.analyzer.service.analysis import Snapshot

_ROWS = 100

JobState = Literal["", "running", "ended"]
GpuState = Literal["", "idle", "searching", "answered"]
SourceState = Literal["", "up", "down"]


def jobs_list(snapshot: Snapshot, now: float, *, words: str, state: JobState, node: str, after: str) -> dict[str, Any]:
    """Return what the template shows of the jobs, on one node where it is given."""
    jobs = jobs_of(snapshot, node=node or None, active={"": None, "running": True, "ended": False}[state], q=words)
    choices = {"": "running and ended", "running": "running", "ended": "ended"}
    title = f"Jobs on {node}" if node else "Jobs"
    return {
        **_list("jobs", title, words, state, choices, {"node": node}),
        "now": now,
        "snapshot": snapshot,
        "page": list_page(jobs, job_place, after=after, limit=_ROWS),
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
        "snapshot": snapshot,
        "page": list_page(gpus, gpu_place, after=after, limit=_ROWS),
    }


def nodes_list(snapshot: Snapshot, now: float, *, words: str, after: str) -> dict[str, Any]:
    """Return what the template shows of the nodes that have a GPU that matches."""
    nodes = list(by_node(gpus_of(snapshot, q=words)).values())
    return {
        **_list("nodes", "Nodes", words),
        "now": now,
        "snapshot": snapshot,
        "page": list_page(nodes, lambda node: node[0].node, after=after, limit=_ROWS),
    }


def sources_list(sources: Sequence[SourceStatus], now: float, *, words: str, state: SourceState, after: str) -> dict[str, Any]:
    """Return what the template shows of the telemetry sources."""
    matching = sources_of(sources, up={"": None, "up": True, "down": False}[state], q=words)
    choices = {"": "up and down", "up": "up", "down": "down"}
    return {
        **_list("sources", "Telemetry sources", words, state, choices),
        "now": now,
        "page": list_page(matching, source_place, after=after, limit=_ROWS),
    }


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
