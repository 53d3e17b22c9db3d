"""What a corpus covers and what it lacks: devices, workloads, pairs, and the protocols that it can be evaluated by."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from epochcast.regressor import Catalog, Profile
from epochcast.regressor.features import busy_share
from epochcast.regressor.pairs import Pair, make_pairs
from epochcast.regressor.protocols import splits
from lab.corpus.run import Device, Run

PROTOCOLS = ("P2", "P3", "P4")

Range = tuple[float, float]


@dataclass(frozen=True)
class DeviceCoverage:
    """One GPU or CPU: how many runs of how many workloads, what its telemetry is, and the ranges that they span.

    Attributes:
        metrics: tier of telemetry (``dcgm``, ``nvml``, ``none``) -> runs.
        epoch_s: shortest and longest epoch [s].
        busy: lowest and highest mean share of the time that the GPU was active (0..1); None without a metric that says it.
    """

    name: str
    device: Device
    runs: int
    workloads: int
    metrics: Mapping[str, int]
    epoch_s: Range
    busy: Range | None


@dataclass(frozen=True)
class WorkloadCoverage:
    """One workload, its sizes where the labels say them, and device -> runs."""

    workload: str
    network: str | None
    batch_size: int | None
    image_size: int | None
    samples: int | None
    precision: str | None
    runs: Mapping[str, int]


@dataclass(frozen=True)
class Missing:
    """A workload that was not measured on ``gpu``, and the seconds of its epoch where it was (median over GPUs)."""

    gpu: str
    workload: str
    epoch_s: float


@dataclass(frozen=True)
class Coverage:
    """What a corpus covers.

    Attributes:
        runs: how many there are.
        devices, workloads: by name, and in the order of network, image and batch.
        paired: workloads measured on two GPUs or more.
        pairs: ordered pairs of runs to learn from; each repeat of a run counts.
        missing: what would complete the table of GPUs and workloads, shortest epoch first.
        left_out: a sentence for each device whose runs cannot be learnt from.
        protocols: ``P2``, ``P3``, ``P4`` -> why the corpus cannot be evaluated by it, None where it can.
    """

    runs: int
    devices: tuple[DeviceCoverage, ...]
    workloads: tuple[WorkloadCoverage, ...]
    paired: int
    pairs: int
    missing: tuple[Missing, ...]
    left_out: tuple[str, ...]
    protocols: Mapping[str, str | None]


def coverage(runs: Sequence[Run], catalog: Catalog) -> Coverage:
    """Say what ``runs``, each recording once, cover: all of them in the tables, those on GPUs of the catalogue in the rest."""
    usable, left_out = on_known_gpus(runs, catalog)
    gpus = _by_workload(usable)
    profiles = [run.profile for run in usable]
    pairs, refusal = _pairs(profiles, catalog)
    return Coverage(
        runs=len(runs),
        devices=tuple(_device(name, own) for name, own in sorted(_grouped(runs, lambda run: run.profile.gpu).items())),
        workloads=tuple(_workloads(runs)),
        paired=sum(len(seconds) > 1 for seconds in gpus.values()),
        pairs=len(pairs),
        missing=tuple(_missing(gpus)),
        left_out=tuple(left_out),
        protocols={name: refusal or _refusal(pairs, name) for name in PROTOCOLS},
    )


def _grouped(runs: Sequence[Run], key: Callable[[Run], str]) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return groups


def _workload_of(run: Run) -> str:
    return run.profile.workload or ""


def _device(name: str, runs: Sequence[Run]) -> DeviceCoverage:
    seconds = [run.profile.epoch_s or 0.0 for run in runs]
    busy = [share for share, metric in (busy_share(run.profile) for run in runs) if metric is not None]
    return DeviceCoverage(
        name=name,
        device=runs[0].device,
        runs=len(runs),
        workloads=len({run.profile.workload for run in runs}),
        metrics=dict(sorted(Counter(run.profile.feature_set for run in runs).items())),
        epoch_s=(min(seconds), max(seconds)),
        busy=(min(busy), max(busy)) if busy else None,
    )


def _workloads(runs: Sequence[Run]) -> list[WorkloadCoverage]:
    rows = [
        WorkloadCoverage(
            workload,
            own[0].profile.group,
            own[0].batch_size,
            own[0].image_size,
            own[0].samples,
            own[0].precision,
            dict(sorted(Counter(run.profile.gpu for run in own).items())),
        )
        for workload, own in _grouped(runs, _workload_of).items()
    ]
    return sorted(rows, key=lambda row: (row.network or "", row.image_size or 0, row.batch_size or 0, row.workload))


def _by_workload(runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Workload -> GPU -> median seconds of an epoch."""
    return {
        workload: {
            gpu: statistics.median(run.profile.epoch_s or 0.0 for run in repeats)
            for gpu, repeats in _grouped(own, lambda run: run.profile.gpu).items()
        }
        for workload, own in sorted(_grouped(runs, _workload_of).items())
    }


def _missing(seconds: Mapping[str, Mapping[str, float]]) -> list[Missing]:
    gpus = sorted({gpu for by_gpu in seconds.values() for gpu in by_gpu})
    rows = [
        Missing(gpu, workload, statistics.median(by_gpu.values()))
        for workload, by_gpu in seconds.items()
        for gpu in gpus
        if gpu not in by_gpu
    ]
    return sorted(rows, key=lambda row: (row.epoch_s, row.workload, row.gpu))


def _pairs(profiles: Sequence[Profile], catalog: Catalog) -> tuple[list[Pair], str | None]:
    """The pairs, or none and why."""
    if not profiles:
        return [], "no run is on a GPU in the catalogue"
    try:
        return make_pairs(profiles, catalog), None
    except ValueError as error:  # the regressor's InputError
        return [], str(error)


def _refusal(pairs: Sequence[Pair], protocol: str) -> str | None:
    """Why the pairs cannot be split by the protocol; None where they can."""
    try:
        list(splits(pairs, protocol))
    except ValueError as error:  # the regressor's InputError
        return str(error)
    return None


def on_known_gpus(runs: Sequence[Run], catalog: Catalog) -> tuple[list[Run], list[str]]:
    """The runs on GPUs of the catalogue, and for each other device a sentence: how many runs it has, why they do not count."""
    reasons: dict[str, str] = {}
    for run in runs:
        if run.device == "cpu":
            reasons[run.profile.gpu] = "a CPU run has no GPU telemetry"
            continue
        try:
            catalog.resolve(run.profile.gpu)
        except ValueError as error:  # the regressor's InputError: unknown or ambiguous
            reasons[run.profile.gpu] = str(error)
    counts = Counter(run.profile.gpu for run in runs)
    return [run for run in runs if run.profile.gpu not in reasons], [
        f"{counts[device]} {'run' if counts[device] == 1 else 'runs'} on {device} left out: {reason}"
        for device, reason in reasons.items()
    ]
