"""Machines, each with what its GPUs do: what is left of a large fleet in a table that people can read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...answers.answer_schema import GpuAnswer
from . import states

if TYPE_CHECKING:
    from ..analysis import Snapshot

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

    @property
    def troubled(self) -> bool:
        """Whether a GPU is in a bad state."""
        return any(kind == "bad" for kind, _, _ in self.states)


def nodes_of(gpus: Iterable[GpuAnswer], snapshot: Snapshot, now: float) -> list[NodeRow]:
    """Return the nodes of these GPUs, by name."""
    by_node: dict[str, list[GpuAnswer]] = {}
    for gpu in gpus:
        by_node.setdefault(gpu.node, []).append(gpu)
    return [_row(node, by_node[node], snapshot, now) for node in sorted(by_node)]


def _row(node: str, gpus: list[GpuAnswer], snapshot: Snapshot, now: float) -> NodeRow:
    models = Counter(gpu.model or gpu.name for gpu in gpus)
    words = Counter((state.kind, state.word) for state in (states.of_gpu(gpu, now) for gpu in gpus))
    jobs = dict.fromkeys(gpu.job for gpu in gpus if states.is_working(gpu, now) and gpu.job in snapshot.jobs)
    named = [(job, snapshot.jobs[job].title) for job in list(jobs)[:MOST_JOBS] if job is not None]
    return NodeRow(
        node,
        " and ".join(f"{number} × {model}" for model, number in sorted(models.items())),
        len(gpus),
        sum(states.is_working(gpu, now) for gpu in gpus),
        sorted(((kind, word, number) for (kind, word), number in words.items()), key=lambda each: (each[0] != "bad", each[1])),
        named,
        len(jobs) - len(named),
        max((gpu.last_sample for gpu in gpus if gpu.last_sample is not None), default=None),
    )
