"""Which GPUs train together: by Slurm job, else pod, else container, else process, else by being in step; or a GPU alone.

An id never changes while a job goes on: what was published before is handed in again (`Known`), also after a restart. A job
that its owners name (``slurm-1234``) has that name from the moment at which they are known.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from types import MappingProxyType
from zlib import crc32

from ..answers.answer_schema import Grouping
from ..answers.cycles import sharing
from ..telemetry.gpu_report import Report, trainers
from .phase import LEAST_EPOCHS, StepCandidates, epochs_decide, in_step
from .rhythm import Rhythm, RhythmCandidates, in_rhythm

SAME_START_S = 60.0
"""A job's beginning may be found again a little elsewhere, and on another GPU."""

# Letters of a GPU's name that an id holds.
_LONG_KEY = 150

Rhythms = Mapping[tuple[str, float], Rhythm]
"""UUID of a GPU, and `Report.job_since` there -> its rhythm."""

_BY_OWNERS: tuple[Grouping, ...] = ("slurm_job", "pod", "container", "process")


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
class Group:
    """The GPUs of a job.

    Attributes:
        id: for addresses: letters, digits, ``-``, ``_`` and ``.``.
        grouped_by: what showed that they belong together.
        title: for people.
        gpus: UUIDs, by node and label.
        notes: sentences on what is not sure.
    """

    id: str
    grouped_by: Grouping
    title: str
    gpus: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Cluster:
    """GPUs that belong together; ``key`` is the id that their owners give them, or a UUID; ``known``: what they were in."""

    grouped_by: Grouping
    key: str
    reports: tuple[Report, ...]
    known: Known | None = None

    @property
    def since(self) -> float:
        """When the first of them began."""
        return min(report.job_since or 0.0 for report in self.reports)


def group(reports: Mapping[str, Report], known: Iterable[Known] = ()) -> list[Group]:
    """Return the jobs that the GPUs run, or ran last, the newest first; a GPU that never worked is in none.

    Args:
        reports: of every GPU, by UUID.
        known: jobs that were published before.
    """
    return [job_group for job_group, _ in grouped(reports.values(), known)]


def grouped(
    reports: Iterable[Report], known: Iterable[Known] = (), rhythms: Rhythms = MappingProxyType({})
) -> list[tuple[Group, tuple[Report, ...]]]:
    """Return what `group` does, each job with its GPUs' reports; a GPU may have several, of one job after another.

    ``rhythms``: of GPUs whose samples are at hand.
    """
    known = list(known)
    worked = [report for report in reports if report.job_since is not None]
    clusters = _by_phase(_by_owners(worked, known), rhythms)
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


def _by_owners(reports: Sequence[Report], known: Sequence[Known]) -> list[_Cluster]:
    """GPUs together that their owners say belong together, each other one alone."""
    before = _memory(known)
    named: dict[tuple[Grouping, str], list[Report]] = {}
    alone: list[_Cluster] = []
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
            alone.append(_Cluster("single", report.device.uuid, (report,), known=remembered))
    for key, together in _by_process(processes).items():
        ids = {job.id for report in together if (job := _remembered(report, before)) and job.grouped_by == "process"}
        named.setdefault(("process", min(ids, default=key)), []).extend(together)
    return alone + [
        _Cluster(grouped_by, key, tuple(together), known=_remembered(together[0], before))
        for (grouped_by, key), together in named.items()
    ]


def _owner_key(report: Report) -> tuple[Grouping, str]:
    """What the first owner that names most says; the id of its job, but for processes."""
    owners = trainers(report.owners)
    for owner in owners:
        if owner.slurm_job:
            return "slurm_job", _safe(f"slurm-{owner.slurm_job}")
    for owner in owners:
        if owner.pod:
            return "pod", _safe(f"pod-{owner.pod}")
    for owner in owners:
        if owner.container:
            return "container", _safe(f"container-{owner.container[:12]}-{report.device.node}")
    return ("process", "") if owners else ("single", "")


def _by_process(reports: Sequence[Report]) -> dict[str, list[Report]]:
    """GPUs of one node that share a process; each rank of a job mostly has its own, and often one on the first GPU too."""
    parent = list(range(len(reports)))

    def root(number: int) -> int:
        while parent[number] != number:
            number = parent[number]
        return number

    first: dict[tuple[str, int], int] = {}
    for number, report in enumerate(reports):
        for owner in trainers(report.owners):
            other = first.setdefault((report.device.node, owner.pid), number)
            parent[root(number)] = root(other)
    together: dict[int, list[Report]] = {}
    for number, report in enumerate(reports):
        together.setdefault(root(number), []).append(report)
    return {
        _safe(f"{each[0].device.node}-{min(owner.pid for report in each for owner in trainers(report.owners))}"): each
        for each in together.values()
    }


def _by_phase(clusters: Sequence[_Cluster], rhythms: Rhythms) -> list[_Cluster]:
    """Put clusters together that are in step; those of Slurm are whole."""
    slurm = [cluster for cluster in clusters if cluster.grouped_by == "slurm_job"]
    merged: list[list[_Cluster]] = []
    near, alike = StepCandidates(), RhythmCandidates()
    before: dict[int, list[int]] = defaultdict(list)  # numbers of ``merged``, by the job that they were in
    for cluster in sorted(clusters, key=lambda cluster: (cluster.known.since if cluster.known else cluster.since, cluster.key)):
        if cluster.grouped_by == "slurm_job":
            continue
        first, job = cluster.reports[0], None if cluster.known is None else id(cluster.known)
        own = rhythms.get(_stretch(first))
        candidates = {*near.near(first), *(before[job] if job is not None else ())} | (alike.near(own) if own else set())
        home = next((number for number in sorted(candidates) if _together(merged[number], cluster, rhythms)), len(merged))
        if own is not None:
            alike.add(home, own)
        if home < len(merged):
            merged[home].append(cluster)
            continue
        near.add(home, first)
        if job is not None:
            before[job].append(home)
        merged.append([cluster])
    return slurm + [each[0] if len(each) == 1 else _merged(each) for each in merged]


def _together(home: Sequence[_Cluster], other: _Cluster, rhythms: Rhythms) -> bool:
    first, second = home[0].reports[0], other.reports[0]
    if _different_programs(first, second):
        return False
    if in_step(first, second, so_far=home[0].known is not None and home[0].known is other.known):
        return True
    own, since = rhythms.get(_stretch(second)), second.job_since or 0.0
    if own is None or epochs_decide(first, second) or abs(since - (first.job_since or 0.0)) > SAME_START_S:
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


def _merged(clusters: Sequence[_Cluster]) -> _Cluster:
    """One job of several; its id is the earliest that was published, else a new one."""
    reports = tuple(report for cluster in clusters for report in cluster.reports)
    published = [cluster.known for cluster in clusters if cluster.known is not None]
    known = min(published, key=lambda job: (job.since, job.id), default=None)
    return _Cluster("phase", min(report.device.uuid for report in reports), reports, known)


def _new_id(cluster: _Cluster) -> str:
    key = _safe(cluster.key)
    if key != cluster.key or len(key) > _LONG_KEY:  # a path instead of a UUID: others may differ only in what is lost of it
        key = f"{key[:_LONG_KEY]}-{crc32(cluster.key.encode()):08x}"
    return f"{'phase' if cluster.grouped_by == 'phase' else 'gpu'}-{key}-{cluster.since:.0f}"


def _group(cluster: _Cluster, taken: Container[str]) -> Group:
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
        return f"{len(reports)} GPUs in step on {where}"
    if grouped_by == "single":
        return reports[0].device.title
    if not owners:
        return ""
    if grouped_by == "process":
        return f"process {owners[0].process or 'unknown'} ({min(owner.pid for owner in owners)}) on {where}"
    slurm, pod, container = (
        next((value for owner in owners if (value := getattr(owner, name))), "") for name in ("slurm_job", "pod", "container")
    )
    if grouped_by == "slurm_job":
        return f"Slurm job {slurm}"
    return f"pod {pod[:12]}" if grouped_by == "pod" else f"container {container[:12]} on {where}"


def _notes(cluster: _Cluster, reports: Sequence[Report]) -> tuple[str, ...]:
    notes = []
    if cluster.grouped_by == "phase":
        by_epochs = all(report.verdict == "epochs" and len(report.epochs) >= LEAST_EPOCHS for report in reports)
        shown = "their epochs begin and end together" if by_epochs else "they work and wait at the same moments"
        notes.append(
            f"its {len(reports)} GPUs count as one job because {shown}: their agents report no "
            "processes (setting `processes`), or processes that do not decide it"
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


def _memory(known: Iterable[Known]) -> dict[str, list[tuple[float, Known]]]:
    before: dict[str, list[tuple[float, Known]]] = {}
    for job in known:
        for uuid, since in job.members.items():
            before.setdefault(uuid, []).append((since, job))
    return before


def _remembered(report: Report, before: Mapping[str, Sequence[tuple[float, Known]]]) -> Known | None:
    """The job that this GPU was in when it had the same beginning; of several the earliest."""
    since = report.job_since
    assert since is not None
    near = SAME_START_S if report.period_s is None else max(SAME_START_S, report.period_s)
    own = [job for at, job in before.get(report.device.uuid, ()) if abs(at - since) <= near]
    return min(own, key=lambda job: (job.since, job.id), default=None)


def _safe(text: str) -> str:
    """Fit for an address: what is not a letter, digit, dot, dash or underscore becomes a dash."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:200]
