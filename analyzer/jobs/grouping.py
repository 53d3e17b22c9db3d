"""Which GPUs train together: by Slurm job, else pod, else container, else process, else by being in step; or a GPU alone.

An id never changes while a job goes on: what was published before is handed in again (`known`), also after a restart. A job
that its owners name (``slurm-1234``) has that name from the moment at which they are known.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain, count
from types import MappingProxyType
from zlib import crc32

from epochcast.analyzer.jobs.clusters import SAME_START_S, Cluster, Group, Grouping, Rhythms, by_phase
from epochcast.analyzer.jobs.cycles import sharing
from epochcast.analyzer.jobs.phase import LEAST_EPOCHS
from epochcast.analyzer.telemetry.gpu_report import Report, trainers

# Letters of a GPU's name that an id holds.
_LONG_KEY = 150

_BY_OWNERS: tuple[Grouping, ...] = ("slurm_job", "pod", "container", "process")


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
    slurm, pod, container = (
        next((value for owner in owners if (value := getattr(owner, name))), "") for name in ("slurm_job", "pod", "container")
    )
    if grouped_by == "slurm_job":
        return f"Slurm job {slurm}"
    return f"pod {pod[:12]}" if grouped_by == "pod" else f"container {container[:12]} on {where}"


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
