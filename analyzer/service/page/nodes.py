"""Machines, each with what its GPUs do: what is left of a large fleet in a table that people can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from epochcast.analyzer.jobs.watched import WatchedGpu
from epochcast.analyzer.service.page import states

if TYPE_CHECKING:
    from epochcast.analyzer.service.analysis import Snapshot

MOST_JOBS = 3
"""Jobs of a node that its row names."""


def by_node(gpus: Iterable[WatchedGpu]) -> dict[str, list[WatchedGpu]]:
    """Return these GPUs by node, in the order of the nodes' names."""
    found: dict[str, list[WatchedGpu]] = {}
    for gpu in gpus:
        found.setdefault(gpu.node, []).append(gpu)
    return dict(sorted(found.items()))


def node_row(gpus: Sequence[WatchedGpu], snapshot: Snapshot, now: float) -> dict[str, Any]:
    """Return what the template shows of the node that has these GPUs; ``states``: how many are in each, what is bad first."""
    models = Counter(gpu.model or gpu.name for gpu in gpus)
    words = Counter((state.kind, state.word) for state in (states.of_gpu(gpu, now) for gpu in gpus))
    working = [gpu for gpu in gpus if states.is_working(gpu, now)]
    jobs = [snapshot.jobs[job] for job in dict.fromkeys(gpu.job for gpu in working if gpu.job) if job in snapshot.jobs]
    return {
        "node": gpus[0].node,
        "hardware": " and ".join(f"{number} × {model}" for model, number in sorted(models.items())),
        "gpus": len(gpus),
        "working": len(working),
        "states": sorted(words.items(), key=lambda each: (each[0][0] != "bad", each[0][1])),
        "jobs": jobs[:MOST_JOBS],
        "more_jobs": max(0, len(jobs) - MOST_JOBS),
        "newest": max((gpu.last_sample for gpu in gpus if gpu.last_sample is not None), default=None),
    }
