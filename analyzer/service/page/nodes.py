"""Machines, each with what its GPUs do: what is left of a large fleet in a table that people can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochcast.analyzer.jobs.watched import WatchedGpu
from epochcast.analyzer.service.page import states

if TYPE_CHECKING:
    from epochcast.analyzer.service.analysis import Snapshot

MOST_JOBS = 3
"""Jobs of a node that its row names."""


@dataclass(frozen=True)
class NodeRow:
    """A node in a table.

    Attributes:
        hardware: ``8 × H100 SXM5``.
        gpus: how many it has.
        working: how many of them work.
        states: how many GPUs are in each state, by its kind and word; what is bad first.
        jobs: id and title of the first jobs that its GPUs run.
        more_jobs: how many more they run.
        newest: unix seconds of the newest sample.
    """

    node: str
    hardware: str
    gpus: int
    working: int
    states: list[tuple[states.Kind, str, int]]
    jobs: list[tuple[str, str]]
    more_jobs: int
    newest: float | None


def by_node(gpus: Iterable[WatchedGpu]) -> dict[str, list[WatchedGpu]]:
    """Return these GPUs by node, in the order of the nodes' names."""
    found: dict[str, list[WatchedGpu]] = {}
    for gpu in gpus:
        found.setdefault(gpu.node, []).append(gpu)
    return dict(sorted(found.items()))


def node_row(gpus: Sequence[WatchedGpu], snapshot: Snapshot, now: float) -> NodeRow:
    """Return the row of the node that has these GPUs."""
    models = Counter(gpu.model or gpu.name for gpu in gpus)
    words = Counter((state.kind, state.word) for state in (states.of_gpu(gpu, now) for gpu in gpus))
    working = [gpu for gpu in gpus if states.is_working(gpu, now)]
    jobs = [snapshot.jobs[job] for job in dict.fromkeys(gpu.job for gpu in working if gpu.job) if job in snapshot.jobs]
    return NodeRow(
        gpus[0].node,
        " and ".join(f"{number} × {model}" for model, number in sorted(models.items())),
        len(gpus),
        len(working),
        sorted(((kind, word, number) for (kind, word), number in words.items()), key=lambda each: (each[0] != "bad", each[1])),
        [(job.id, job.title) for job in jobs[:MOST_JOBS]],
        max(0, len(jobs) - MOST_JOBS),
        max((gpu.last_sample for gpu in gpus if gpu.last_sample is not None), default=None),
    )
