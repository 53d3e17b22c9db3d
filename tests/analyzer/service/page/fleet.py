"""A made-up fleet in a store, as the watcher would leave it: every kind of job and state that the page has words for."""

from __future__ import annotations

import random
import time
from dataclasses import replace

from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.telemetry.gpu_report import NOTHING, EpochRecord, GpuDevice, Owner, Report
from epochcast.detector import Cycle, Detection
from epochcast.regressor.profile import Profile


def fill(store: StateStore, now: float | None = None) -> None:
    """Ten GPUs: a job of 4 with a straggler, one of 2, one of steps, one without either, one that ended, one just begun."""
    now = time.time() if now is None else now
    noise = random.Random(7)
    reports: list[Report] = []

    def training(
        device: GpuDevice,
        period: float,
        epochs: int,
        owner: Owner | None,
        since: float,
        cycles: tuple[Cycle, ...] = (),
        **more: object,
    ) -> None:
        found, start = [], since + 3.0
        for number in range(epochs):
            seconds = period * (1.07 if number == 0 else 1 + noise.gauss(0, 0.006)) * (1.16 if number == epochs - 4 else 1)
            found.append(EpochRecord(start, start + seconds, 0.31 if number == epochs - 4 else 0.94, since))
            start += seconds
        report = Report(
            device,
            state="answered",
            detection=Detection("epochs", period, None, (), 0.93, "track", "wall", cycles=cycles),
            job_since=since,
            epochs_seen=epochs,
            epochs=tuple(found),
            profile=_profile(device.name, period, "epoch", epochs - 1),
            owners=(owner,) if owner else (),
            last_sample=now - 0.4,
            samples=10 * int(now - since),
        )
        reports.append(replace(report, **more))  # type: ignore[arg-type]

    for number in range(4):
        since = now - 184.0 * 21.6
        owner = Owner(4000 + number, "python", "ana", "", "1234")
        period = 184.0 * (1.11 if number == 2 else 1)
        training(_device("node-1", number, "NVIDIA A10G", instance="g5.12xlarge", cloud="aws"), period, 19, owner, since)
    for number in range(2):
        cycles = (
            Cycle("step", 0.71, 0.8, "about 88 in each epoch, strictly even (autocorrelation 0.71)", 0.12, None),
            Cycle("epoch", 62.4, 0.93, "at its boundary other work for 4.1 s (dram_active x 0.63)", 0.14, 0.0),
            Cycle("checkpoint", 187.2, 0.93, "every 3 cycles the GPU rests, and pcie_tx is far above usual", 0.2, 26.2),
        )
        owner = Owner(4711, "python", "ben")
        training(_device("node-2", number, "Tesla T4"), 62.4, 44, owner, now - 62.4 * 45.5, cycles=cycles)
    training(_device("node-4", 0, "NVIDIA A10G"), 41.7, 30, Owner(812, "python"), now - 9000, state="idle")
    steps = _device("node-3", 0, "Tesla V100-SXM2-16GB")
    by_steps = Detection("steps", 0.4312, None, (), 0.81, "track", "wall")
    plain = Report(steps, "answered", by_steps, now - 2710, 0, last_sample=now - 0.2, samples=27000)
    reports.append(replace(plain, profile=_profile("Tesla V100-SXM2-16GB", 0.4312, "step", 0)))
    neither = _device("node-3", 1, "Tesla T4")
    plain = Report(neither, "answered", NOTHING, now - 5400, 0, last_sample=now - 0.3, samples=54000)
    reports.append(replace(plain, profile=_profile("Tesla T4", None, None, 0)))
    reports.append(Report(_device("node-4", 1, "NVIDIA A10G"), "searching", NOTHING, now - 41, 0, last_sample=now - 0.3))
    # All epochs are of the reports: none of these has more than a report holds.
    store.write_gpus([GpuChange(report, report.epochs) for report in reports])


def watcher() -> WatcherReport:
    """Three sources that answer, and one that does not."""
    now = time.time()
    sources = [SourceStatus("node", f"http://node-{number}:9912", True, "", 900, 0, now - 0.4, 0.4) for number in (1, 2, 4)]
    lost = SourceStatus(
        "node",
        "http://node-3:9912",
        False,
        "node analyzer http://node-3:9912 does not answer: connection refused",
        900,
        7,
        now - 31,
        31.0,
    )
    return WatcherReport(WatcherHealth(), [*sources, lost])


def _device(node: str, number: int, name: str, **more: str) -> GpuDevice:
    static = {"memory_total": 24 * 2**30, "driver_version": "550.54"}
    return GpuDevice(f"GPU-{node}-{number}", str(number), name, node, "replay", True, static, **more)


def _profile(gpu: str, seconds: float | None, unit: str | None, epochs: int) -> Profile:
    def around(mean: float, spread: float = 0.08) -> dict[str, float]:
        return {
            "mean": mean,
            "std": mean * spread,
            "min": mean * (1 - 4 * spread),
            "p25": mean * (1 - 0.6 * spread),
            "p50": mean,
            "p75": mean * (1 + 0.6 * spread),
            "max": mean * (1 + spread),
        }

    metrics = {
        "gpu_utilization": around(0.91),
        "memory_utilization": around(0.44),
        "power": around(61.0 if gpu == "Tesla T4" else 198.0),
        "sm_clock": around(1.45e9, 0.03),
        "memory_used": around(9.1e9, 0.01),
        "temperature": around(61.0, 0.03),
    }
    return Profile(
        gpu,
        seconds,
        unit,  # type: ignore[arg-type]
        epochs,
        metrics,
        "nvml",
        first_epoch_excluded=unit == "epoch",
        simulated=True,
        epoch_s_low=None if seconds is None else seconds * 0.985,
        epoch_s_high=None if seconds is None else seconds * 1.017,
    )
