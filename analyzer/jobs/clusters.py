"""GPUs that show themselves that they work on one job: clusters of them that are in step become one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from epochcast.analyzer.jobs.phase import StepCandidates, epochs_decide, in_step
from epochcast.analyzer.jobs.rhythm import Rhythm, RhythmCandidates, in_rhythm
from epochcast.analyzer.telemetry.gpu_report import Report, trainers

Grouping = Literal["slurm_job", "pod", "container", "process", "phase", "single"]

SAME_START_S = 60.0
"""A job's beginning may be found again a little elsewhere, and on another GPU."""

Rhythms = Mapping[tuple[str, float], Rhythm]
"""UUID of a GPU, and `Report.job_since` there -> its rhythm."""


@dataclass(frozen=True)
class Known:
    """A job that was published before.

    Attributes:
        id: of the job.
        grouped_by: how its GPUs were found to belong together.
        title: for people.
        since: unix seconds at which it began.
        members: UUID of a GPU -> `Report.job_since` there.
    """

    id: str
    grouped_by: Grouping
    title: str
    since: float
    members: Mapping[str, float]


@dataclass(frozen=True)
class Cluster:
    """GPUs that belong together; ``key`` is the id that their owners give them, or a UUID; ``known``: what they were in."""

    grouped_by: Grouping
    key: str
    reports: tuple[Report, ...]
    known: Known | None = None

    @property
    def since(self) -> float:
        """When the first of them began."""
        return min(report.job_since or 0.0 for report in self.reports)


def by_phase(clusters: Sequence[Cluster], rhythms: Rhythms) -> list[Cluster]:
    """Put clusters together that are in step; those of Slurm are whole."""
    slurm = [cluster for cluster in clusters if cluster.grouped_by == "slurm_job"]
    merged: list[list[Cluster]] = []
    near, alike = StepCandidates(), RhythmCandidates()
    beside: dict[str, set[int]] = defaultdict(set)  # those with a GPU of this node
    before: dict[int, list[int]] = defaultdict(list)  # numbers of ``merged``, by the job that they were in
    for cluster in sorted(clusters, key=lambda cluster: (cluster.known.since if cluster.known else cluster.since, cluster.key)):
        if cluster.grouped_by == "slurm_job":
            continue
        first, job = cluster.reports[0], None if cluster.known is None else id(cluster.known)
        own = rhythms.get(_stretch(first))
        candidates = {*near.near(first), *(before[job] if job is not None else ())}
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
        near.add(home, first)
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
    for field in ("user", "process"):
        names, others = ({getattr(owner, field) for owner in trainers(report.owners)} - {""} for report in (first, second))
        if names and others and not names & others:
            return True
    return False


def _merged(clusters: Sequence[Cluster]) -> Cluster:
    """One job of several; its id is the earliest that was published, else a new one."""
    reports = tuple(report for cluster in clusters for report in cluster.reports)
    published = [cluster.known for cluster in clusters if cluster.known is not None]
    known = min(published, key=lambda job: (job.since, job.id), default=None)
    return Cluster("phase", min(report.device.uuid for report in reports), reports, known)
