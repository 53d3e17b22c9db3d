"""GPUs that show themselves that they work on one job: clusters of them that are in step become one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from epochcast.analyzer.jobs.phase import MOST_APART, epoch_length, epochs_decide, in_step
from epochcast.analyzer.jobs.rhythm import Rhythm, RhythmCandidates, in_rhythm
from epochcast.analyzer.telemetry.gpu_report import Report, trainers

Grouping = Literal["slurm_job", "pod", "container", "process", "phase", "single"]

SAME_START_S = 60.0
"""A job's beginning may be found again a little elsewhere, and on another GPU."""

Rhythms = Mapping[tuple[str, float], Rhythm]
"""UUID of a GPU, and `Report.job_since` there -> its rhythm."""


@dataclass(frozen=True)
class Group:
    """The GPUs of a job.

    Attributes:
        id: for addresses: letters, digits, ``-``, ``_`` and ``.``.
        grouped_by: what showed that they belong together.
        title: for people.
        gpus: UUIDs, by node and label.
        notes: sentences on what is not sure.
        since: unix seconds at which it began.
        members: UUID of a GPU -> `Report.job_since` there; of one that was published before.
    """

    id: str
    grouped_by: Grouping
    title: str
    gpus: tuple[str, ...]
    notes: tuple[str, ...] = ()
    since: float = 0.0
    members: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Cluster:
    """GPUs that belong together; ``key`` is the id that their owners give them, or a UUID; ``known``: what they were in."""

    grouped_by: Grouping
    key: str
    reports: tuple[Report, ...]
    known: Group | None = None

    @property
    def since(self) -> float:
        """When the first of them began."""
        return min(report.job_since or 0.0 for report in self.reports)


def by_phase(clusters: Sequence[Cluster], rhythms: Rhythms) -> list[Cluster]:
    """Put clusters together that are in step; those of Slurm are whole."""
    slurm = [cluster for cluster in clusters if cluster.grouped_by == "slurm_job"]
    merged: list[list[Cluster]] = []
    alike = RhythmCandidates()
    beside: dict[str, set[int]] = defaultdict(set)  # those with a GPU of this node
    before: dict[int, list[int]] = defaultdict(list)  # numbers of ``merged``, by the job that they were in
    shown = np.full((len(clusters), 2), np.nan)  # of the first GPU of each of ``merged``: log of its epoch, and its beginning
    for cluster in sorted(clusters, key=lambda cluster: (cluster.known.since if cluster.known else cluster.since, cluster.key)):
        if cluster.grouped_by == "slurm_job":
            continue
        first, job = cluster.reports[0], None if cluster.known is None else id(cluster.known)
        epoch_s, since = epoch_length(first) or math.nan, first.job_since or 0.0
        # Of ten thousand GPUs a few; nothing is left out that `in_step` would say yes to.
        near = (np.abs(shown - (math.log(epoch_s), since)) <= (1.001 * math.log1p(MOST_APART), 1.03 * epoch_s)).all(axis=1)
        candidates = {*np.flatnonzero(near).tolist(), *(before[job] if job is not None else ())}
        own = rhythms.get(_stretch(first))
        if own is not None:
            candidates |= beside[first.device.node]
        home = next((number for number in sorted(candidates) if _together(merged[number], cluster, rhythms)), None)
        if home is None and own is not None:  # which takes longer among ten thousand GPUs
            others = sorted(alike.near(own) - candidates)
            home = next((number for number in others if _together(merged[number], cluster, rhythms)), None)
        home = len(merged) if home is None else home
        if own is not None:
            beside[first.device.node].add(home)
            alike.add(home, own)
        if home < len(merged):
            merged[home].append(cluster)
            continue
        shown[home] = math.log(epoch_s), since
        if job is not None:
            before[job].append(home)
        merged.append([cluster])
    return slurm + [each[0] if len(each) == 1 else _merged(each) for each in merged]


def _together(home: Sequence[Cluster], other: Cluster, rhythms: Rhythms) -> bool:
    first, second = home[0].reports[0], other.reports[0]
    if _different_programs(first, second):
        return False
    if in_step(first, second, so_far=home[0].known is not None and home[0].known is other.known):
        return True
    own, since = rhythms.get(_stretch(second)), second.job_since or 0.0
    if own is None or abs(since - (first.job_since or 0.0)) > SAME_START_S:
        return False
    if epochs_decide(first, second) and not in_step(first, second, so_far=True):  # nearly in step, the rhythm decides
        return False
    theirs = (rhythms.get(_stretch(cluster.reports[0])) for cluster in home)  # one of them may have rows missing
    return any(rhythm is not None and in_rhythm(rhythm, own) for rhythm in theirs)


def _stretch(report: Report) -> tuple[str, float]:
    return report.device.uuid, report.job_since or 0.0


def _different_programs(first: Report, second: Report) -> bool:
    """Whether owners show that it is not one job: another user, or another program."""
    for name in ("user", "process"):
        names, others = ({getattr(owner, name) for owner in trainers(report.owners)} - {""} for report in (first, second))
        if names and others and not names & others:
            return True
    return False


def _merged(clusters: Sequence[Cluster]) -> Cluster:
    """One job of several; its id is the earliest that was published, else a new one."""
    reports = tuple(report for cluster in clusters for report in cluster.reports)
    published = [cluster.known for cluster in clusters if cluster.known is not None]
    known = min(published, key=lambda job: (job.since, job.id), default=None)
    return Cluster("phase", min(report.device.uuid for report in reports), reports, known)
