"""Which GPUs train together: by Slurm job, else pod, else container, else process, else by being in step; or a GPU alone.

An id never changes while a job goes on: what was published before is handed in again (`known`), also after a restart. A job
that its owners name (``slurm-1234``) has that name from the moment at which they are known.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from types import MappingProxyType
from typing import Literal
from zlib import crc32

import numpy as np
from scipy.sparse import lil_array
from scipy.sparse.csgraph import connected_components

from epochcast.analyzer.jobs.cycles import sharing
from epochcast.analyzer.jobs.rhythm import Rhythm, RhythmCandidates, in_rhythm
from epochcast.analyzer.telemetry.gpu_report import Owner, Report, trainers

Grouping = Literal["slurm_job", "pod", "container", "process", "phase", "single"]

SAME_START_S = 60.0
"""A job's beginning may be found again a little elsewhere, and on another GPU."""

Rhythms = Mapping[tuple[str, float], Rhythm]
"""UUID of a GPU, and `Report.job_since` there -> its rhythm."""

# Letters of a GPU's name that an id holds.
_LONG_KEY = 150

# What owners name, from what says most; as ids begin.
_NAMED: Mapping[Grouping, str] = {"slurm_job": "slurm", "pod": "pod", "container": "container"}
_BY_OWNERS: tuple[Grouping, ...] = (*_NAMED, "process")

MOST_APART = 0.02
"""The lengths of epochs of one job differ by no more, as a share."""

# In step: GPUs of one job wait for each other, so that their epochs begin and end together; the only sign where nobody looks at
# processes. Two jobs of equal epochs that were started together (a search over hyperparameters) differ by another little each
# time, what one job shows on two GPUs by how it is sampled alone.
# Boundaries that belong together lie within this share of an epoch; what is in step already stays so up to the second.
_ALIGNED, _STILL_ALIGNED = 0.05, 0.10

LEAST_EPOCHS = 5
"""Epochs that must have ended together."""

# The share of those that both saw which must.
_SHARE = 0.8

# By how much boundaries may scatter around a constant difference (of clocks, say): so many samples, or this share of an epoch;
# and so many times that for what is in step already.
_SAMPLES, _SCATTER, _STILL = 1.0, 0.007, 3.0

# The newest epochs show whether two jobs have drifted apart.
_NEWEST = 30


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


def group(reports: Mapping[str, Report], known: Iterable[Group] = ()) -> list[Group]:
    """Return the jobs that the GPUs run, or ran last, the newest first; a GPU that never worked is in none.

    Args:
        reports: of every GPU, by UUID.
        known: jobs that were published before.
    """
    return [job_group for job_group, _ in grouped(reports.values(), known)]


def grouped(
    reports: Iterable[Report], known: Iterable[Group] = (), rhythms: Rhythms = MappingProxyType({})
) -> list[tuple[Group, tuple[Report, ...]]]:
    """Return what `group` does, each job with its GPUs' reports; a GPU may have several, of one job after another.

    ``rhythms``: of GPUs whose samples are at hand.
    """
    known = list(known)
    worked = [report for report in reports if report.job_since is not None]
    clusters = by_phase(_by_owners(worked, known), rhythms)
    # What owners name has its name first, then the largest, then the GPU that the name is made of.
    clusters.sort(
        key=lambda cluster: (
            cluster.grouped_by not in _BY_OWNERS,
            -len(cluster.reports),
            cluster.known is None or cluster.known.id != _new_id(cluster),
            cluster.key,
        )
    )
    groups: dict[str, tuple[float, Group, tuple[Report, ...]]] = {}
    for cluster in clusters:
        made = _group(cluster, groups.keys())
        groups[made.id] = (cluster.since, made, cluster.reports)
    return [(made, own) for _, made, own in sorted(groups.values(), key=lambda entry: (-entry[0], entry[1].id))]


def _by_owners(reports: Sequence[Report], known: Sequence[Group]) -> list[Cluster]:
    """GPUs together that their owners say belong together, each other one alone."""
    before = _memory(known)
    named: dict[tuple[Grouping, str], list[Report]] = {}
    alone: list[Cluster] = []
    processes: list[Report] = []
    for report in reports:
        grouped_by, key = _owner_key(report)
        remembered = _remembered(report, before)
        if grouped_by == "process":
            processes.append(report)
        elif grouped_by != "single":
            named.setdefault((grouped_by, key), []).append(report)
        elif remembered is not None and remembered.grouped_by in _BY_OWNERS:
            # Its processes are gone, or their owners are not reported at the moment: it is the same job still.
            named.setdefault((remembered.grouped_by, remembered.id), []).append(report)
        else:
            alone.append(Cluster("single", report.device.uuid, (report,), known=remembered))
    for key, together in _by_process(processes).items():
        ids = {job.id for report in together if (job := _remembered(report, before)) and job.grouped_by == "process"}
        named.setdefault(("process", min(ids, default=key)), []).extend(together)
    return alone + [
        Cluster(grouped_by, key, tuple(together), known=_remembered(together[0], before))
        for (grouped_by, key), together in named.items()
    ]


def _owner_key(report: Report) -> tuple[Grouping, str]:
    """What the first owner that names most says; the id of its job, but for processes."""
    owners = trainers(report.owners)
    for grouped_by, kind in _NAMED.items():
        if name := _name_of(owners, grouped_by):
            shown = f"{name[:12]}-{report.device.node}" if grouped_by == "container" else name
            return grouped_by, _safe(f"{kind}-{shown}")
    return ("process", "") if owners else ("single", "")


def _name_of(owners: Sequence[Owner], attribute: str) -> str:
    """Of the first of them that has one."""
    return next((name for owner in owners if (name := getattr(owner, attribute))), "")


def _by_process(reports: Sequence[Report]) -> dict[str, list[Report]]:
    """GPUs of one node that share a process; each rank of a job mostly has its own, and often one on the first GPU too."""
    first, together = dict[tuple[str, int], int](), defaultdict[int, list[Report]](list)
    links = lil_array((len(reports), len(reports)), dtype=np.int8)
    for number, report in enumerate(reports):
        for owner in trainers(report.owners):
            links[number, first.setdefault((report.device.node, owner.pid), number)] = 1
    for report, job in zip(reports, connected_components(links, directed=False)[1] if reports else (), strict=True):
        together[int(job)].append(report)
    return {
        _safe(f"{each[0].device.node}-{min(owner.pid for report in each for owner in trainers(report.owners))}"): each
        for each in together.values()
    }


def _new_id(cluster: Cluster) -> str:
    key = _safe(cluster.key)
    if key != cluster.key or len(key) > _LONG_KEY:  # a path instead of a UUID: others may differ only in what is lost of it
        key = f"{key[:_LONG_KEY]}-{crc32(cluster.key.encode()):08x}"
    return f"{'phase' if cluster.grouped_by == 'phase' else 'gpu'}-{key}-{cluster.since:.0f}"


def _group(cluster: Cluster, taken: Container[str]) -> Group:
    reports = sorted(cluster.reports, key=lambda report: (report.device.node, len(report.device.label), report.device.label))
    known, title = cluster.known, _title(cluster.grouped_by, reports)
    if cluster.grouped_by in _BY_OWNERS:
        job, title = cluster.key, title or (cluster.key if known is None else known.title)
    elif known is not None and known.id not in taken:
        job = known.id
    else:  # also of a GPU that has left its job: the others keep the name, which may be made of that GPU's
        new = _new_id(cluster)
        names = chain([new], (f"{new}.{number}" for number in count(2)))
        job = next(name for name in names if name not in taken)
    return Group(job, cluster.grouped_by, title, tuple(report.device.uuid for report in reports), _notes(cluster, reports))


def _title(grouped_by: Grouping, reports: Sequence[Report]) -> str:
    """What people call it; empty where its owners are gone."""
    owners = [owner for report in reports for owner in trainers(report.owners)]
    nodes = list(dict.fromkeys(report.device.node for report in reports))
    where = nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
    if grouped_by == "phase":
        return f"{len(reports)} synchronous GPUs on {where}"
    if grouped_by == "single":
        return reports[0].device.title
    if not owners:
        return ""
    if grouped_by == "process":
        return f"process {owners[0].process or 'unknown'} ({min(owner.pid for owner in owners)}) on {where}"
    name = _name_of(owners, grouped_by)
    if grouped_by == "slurm_job":
        return f"Slurm job {name}"
    return f"pod {name[:12]}" if grouped_by == "pod" else f"container {name[:12]} on {where}"


def _notes(cluster: Cluster, reports: Sequence[Report]) -> tuple[str, ...]:
    notes = []
    if cluster.grouped_by == "phase":
        by_epochs = all(report.detection.verdict == "epochs" and len(report.epochs) >= LEAST_EPOCHS for report in reports)
        shown = "their epochs begin and end together" if by_epochs else "they work and wait at the same moments"
        notes.append(
            f"its {len(reports)} GPUs count as one job because {shown}: their agents report no "
            "processes (setting `processes`), or the processes do not settle it"
        )
    for report in reports:
        title, owners = report.device.title, trainers(report.owners)
        for attribute, what in (("slurm_job", "Slurm jobs"), ("pod", "pods"), ("container", "containers"), ("user", "users")):
            names = sorted({getattr(owner, attribute) for owner in owners} - {""})
            if len(names) > 1:
                listed = " and ".join(name[:12] for name in names)
                notes.append(f"{title}: {sharing(f'processes of the {what} {listed} run on it')}")
                break
    return tuple(notes)


def _memory(known: Iterable[Group]) -> dict[str, list[tuple[float, Group]]]:
    before: dict[str, list[tuple[float, Group]]] = {}
    for job in known:
        for uuid, since in job.members.items():
            before.setdefault(uuid, []).append((since, job))
    return before


def _remembered(report: Report, before: Mapping[str, Sequence[tuple[float, Group]]]) -> Group | None:
    """The job that this GPU was in when it had the same beginning; of several the earliest."""
    since = report.job_since
    assert since is not None
    near = SAME_START_S if report.detection.period_s is None else max(SAME_START_S, report.detection.period_s)
    own = [job for at, job in before.get(report.device.uuid, ()) if abs(at - since) <= near]
    return min(own, key=lambda job: (job.since, job.id), default=None)


def _safe(text: str) -> str:
    """Fit for an address: what is not a letter, digit, dot, dash or underscore becomes a dash."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:200]


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


def in_step(first: Report, second: Report, *, so_far: bool = False) -> bool:
    """Whether two GPUs run one job, by their epochs alone.

    Args:
        one, other: what is known of them.
        so_far: they were in step the last time: only epochs that ended apart since then part them.
    """
    length, other_length = epoch_length(first), epoch_length(second)
    if length is None or other_length is None:
        return so_far  # nothing speaks against it
    if first.job_since is None or second.job_since is None:
        return False
    longer, shorter = max(length, other_length), min(length, other_length)
    tolerance = _STILL_ALIGNED if so_far else _ALIGNED
    if longer > (1 + (2 if so_far else 1) * MOST_APART) * shorter or abs(first.job_since - second.job_since) > longer:
        return False
    ends, others = (np.array([epoch.end for epoch in report.epochs]) for report in (first, second))
    if not ends.size or not others.size:
        return so_far
    # Only while both were watched: one of them may have been seen earlier, or show less of the past.
    since, until = max(ends[0], others[0]) - longer / 2, min(ends[-1], others[-1]) + longer / 2
    since = max(since, until - _NEWEST * longer)
    ends, others = (each[(each >= since) & (each <= until)] for each in (ends, others))
    if min(ends.size, others.size) < LEAST_EPOCHS:
        return so_far
    if ends.size > others.size:
        ends, others = others, ends
    away = ends[:, None] - others[None, :]
    away = np.take_along_axis(away, np.abs(away).argmin(axis=1)[:, None], axis=1)[:, 0]
    aligned = int((np.abs(away) <= tolerance * longer).sum())
    if aligned < LEAST_EPOCHS or aligned < _SHARE * max(ends.size, others.size):
        return False
    scatter = float(np.quantile(np.abs(away - np.median(away)), _SHARE))
    most = max(_SAMPLES / min(first.hertz, second.hertz), _SCATTER * longer)
    return scatter <= most * (_STILL if so_far else 1.0)


def epochs_decide(first: Report, second: Report) -> bool:
    """Whether both GPUs show enough epochs of one length for `in_step` to know; then nothing else they share counts."""
    length, other_length = epoch_length(first), epoch_length(second)
    if length is None or other_length is None:
        return False
    alike = max(length, other_length) <= (1 + MOST_APART) * min(length, other_length)
    return alike and min(len(first.epochs), len(second.epochs)) >= LEAST_EPOCHS


def epoch_length(report: Report) -> float | None:
    """Seconds of its epochs; None where it shows none."""
    return report.detection.period_s if report.detection.verdict == "epochs" else None
