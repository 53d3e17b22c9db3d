"""Collects points: measures those that are not in the file yet, until the time is over."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from epochcast.analyzer.backends.convmeter.measurement.device import Timing, cpu_name, free_bytes, tf32
from epochcast.analyzer.backends.convmeter.measurement.networks import Networks
from epochcast.analyzer.backends.convmeter.measurement.phases import (
    CudaTimeline,
    HostTimeline,
    PhaseTimeline,
    inference,
    time_phases,
    training,
)
from epochcast.analyzer.backends.convmeter.measurement.plan import Device, MeasurementPlan, PlannedPoint
from epochcast.analyzer.backends.convmeter.measurement.workers import WorkerGroup
from epochcast.analyzer.backends.convmeter.points import PHASES, points_file
from epochcast.analyzer.backends.convmeter.training_memory import training_memory
from epochcast.analyzer.backends.network.failures import failure_reason
from epochcast.analyzer.errors import InputError

_MOST_OF_FREE = 0.5


@dataclass(frozen=True)
class CollectionResult:
    """Outcome of a collection.

    Attributes:
        rows: in the file.
        new: of them.
        left: items for another run.
        failed: items without a row.
        reasons: why these, or a phase of others, could not be run, and how often.
    """

    rows: int
    new: int
    left: int
    failed: int
    reasons: Mapping[str, int] = field(default_factory=dict)


def device_name(device: Device) -> str:
    """The GPU, or the processor with the number of threads that compute."""
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    threads = torch.get_num_threads()
    return f"{cpu_name()} ({threads} thread{'s' if threads > 1 else ''})"


def collect(
    plan: MeasurementPlan,
    path: Path,
    device: Device,
    budget_seconds: float,
    workers: WorkerGroup,
    progress: Callable[[int, int], None],
) -> CollectionResult:
    """Measure the plan's items in order; each is a row of the file as soon as it is measured.

    Several workers all run the same items in DistributedDataParallel, and the first writes its times.

    Args:
        plan: what to measure.
        path: the file, begun or continued.
        device: where to measure.
        budget_seconds: no new item begins after it.
        workers: the processes that measure.
        progress: called with items done and items in all.

    Raises:
        InputError: the file holds something else, or cannot be written; the GPU has failed.
    """
    begin = time.monotonic()
    place = {"device": device_name(device), "optimizer": "adam", "software": f"torch {torch.__version__}"}
    file = points_file(path, place) if workers.rank == 0 else None
    missing = [number for number, item in enumerate(plan.items) if file is None or _identity(item, workers) not in file]
    missing = workers.as_first(missing)
    bench = _Bench(device, workers)
    done = new = failed = 0
    while done < len(missing) and workers.as_first(done == 0 or time.monotonic() - begin < budget_seconds):
        item = plan.items[missing[done]]
        measured = bench.measure(item)
        done += 1
        new += bool(measured)
        failed += not measured
        if file is not None and measured:
            file.append({**_identity(item, workers), **measured, **item.metrics.values})
        progress(done, len(missing))
    return CollectionResult(file.rows if file else 0, new, len(missing) - done, failed, bench.reasons)


def _identity(item: PlannedPoint, workers: WorkerGroup) -> dict[str, Any]:
    return {
        "precision": item.precision.name,
        "network": item.metrics.network,
        "block": item.metrics.block,
        "image_size": item.metrics.image_size,
        "batch": item.batch,
        "devices": workers.devices,
        "nodes": workers.nodes,
    }


class _Bench:
    """Measures items on a device, and counts reasons of failures."""

    def __init__(self, device: Device, workers: WorkerGroup) -> None:
        self._device, self._workers = device, workers
        self._networks = Networks(device)
        self._timeline = _timeline(device, workers)
        self.reasons: Counter[str] = Counter()

    def measure(self, item: PlannedPoint) -> dict[str, Any]:
        """Columns of the item's row: family, seconds by phase and their spread, rounds; empty if nothing could be run."""
        timings: dict[str, Timing] = {}
        ready: list[tuple[nn.Module, tuple[Any, ...], str]] = []
        with tf32(item.precision.tf32):
            if not self._succeeds(lambda: ready.append(self._ready(item)), item):
                return {}
            module, inputs, family = ready[0]
            if self._workers.devices == 1:
                if self._succeeds(lambda: timings.update(self._inference(module, inputs, item)), item):
                    self._succeeds(lambda: timings.update(self._training(module, inputs, item)), item)
            # Alone first: where one process fails the others would wait for its gradients.
            elif self._succeeds(self._trainer(module, inputs, item), item):
                timings.update(self._training_together(module, inputs, item))
        if not timings:
            return {}
        seconds = {f"{phase}_seconds": timing.seconds for phase, timing in timings.items()}
        spreads = {f"{phase}_iqr": timing.iqr for phase, timing in timings.items()}
        return {"family": family, **seconds, **spreads, "rounds": min(timing.rounds for timing in timings.values())}

    def _ready(self, item: PlannedPoint) -> tuple[nn.Module, tuple[Any, ...], str]:
        # torch reports full GPU memory; where main memory is full, the system kills the process.
        if self._device == "cpu":
            needed = training_memory(item.metrics.values, item.batch, item.precision.name, None)
            if needed is not None and needed.high > _MOST_OF_FREE * free_bytes("cpu") / self._workers.on_this_node:
                raise MemoryError
        return self._networks.ready(item)

    def _inference(self, module: nn.Module, inputs: tuple[Any, ...], item: PlannedPoint) -> dict[str, Timing]:
        _, timing = time_phases(inference(module, inputs, item.precision, self._timeline), self._workers.as_first)
        return {"inference": timing}

    def _training(self, module: nn.Module, inputs: tuple[Any, ...], item: PlannedPoint) -> dict[str, Timing]:
        phases, step = time_phases(self._trainer(module, inputs, item), self._workers.as_first)
        return dict(zip(PHASES[1:], [*phases, step], strict=True))

    def _training_together(self, module: nn.Module, inputs: tuple[Any, ...], item: PlannedPoint) -> dict[str, Timing]:
        try:
            return self._training(DistributedDataParallel(module), inputs, item)
        except (
            RuntimeError
        ) as error:  # such as weights without a gradient; the other processes may be in the middle of an exchange
            raise InputError(
                f"{item.metrics.network} cannot be trained by several processes ({failure_reason(error)}); leave it out and "
                "run the command again: it continues the file"
            ) from error
        finally:
            gc.collect()  # the wrapper holds itself, its buckets of gradients, and the group that must be gone before the exit

    def _trainer(self, module: nn.Module, inputs: tuple[Any, ...], item: PlannedPoint) -> Callable[[], tuple[float, ...]]:
        return training(module, inputs, item.precision, self._timeline)

    def _succeeds(self, attempt: Callable[[], object], item: PlannedPoint) -> bool:
        """Whether the attempt succeeds in every process; if not, the reason is counted."""
        reason = ""
        try:
            attempt()
        except Exception as error:  # a user's network may raise anything
            reason = failure_reason(error)
        if reason:
            self._recover(reason, item)
        succeeded = self._workers.all_are(not reason)
        if not succeeded:
            self.reasons[reason or "failed in another process"] += 1
        return succeeded

    def _recover(self, reason: str, item: PlannedPoint) -> None:
        """Free memory; raises InputError if the GPU no longer answers."""
        try:
            self._networks.clear()
            if self._device == "cuda":
                torch.cuda.synchronize()
        except RuntimeError as error:
            metrics = item.metrics
            raise InputError(
                f"the GPU no longer answers after {metrics.network} at {metrics.image_size} px and batch {item.batch} "
                f"({reason}); run the command again with another --seed: it continues the file"
            ) from error


def _timeline(device: Device, workers: WorkerGroup) -> PhaseTimeline:
    if device == "cuda":
        return CudaTimeline()
    # One thread's own time leaves out what other programs take of the processors; processes wait for one another.
    alone = torch.get_num_threads() == 1 and not workers.launched
    return HostTimeline(time.process_time if alone else time.perf_counter)
