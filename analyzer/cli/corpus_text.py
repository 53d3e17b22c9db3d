"""What a corpus covers and what came into it, as text."""

from __future__ import annotations

from collections.abc import Mapping

from ..corpus.coverage import Coverage, DeviceCoverage, Missing, WorkloadCoverage
from ..corpus.run import DETECTED, Run
from ..words import count
from .tables import interval_text, seconds_text, table

_NEW = {"P2": "new workloads", "P3": "new models", "P4": "new GPUs"}
_LISTED = 10


def coverage_text(found: Coverage) -> str:
    """Tables of devices and workloads, then what is paired, missing, left out, and can be evaluated."""
    names = [device.name for device in found.devices]
    parts = [
        table(("device", "runs", "workloads", "telemetry", "epoch", "busy"), [_device_row(one) for one in found.devices]),
        "",
        table(
            ("network", "batch", "image", "samples", "precision", *names),
            [_workload_row(one, names) for one in found.workloads],
        ),
        "",
        f"{found.paired} of {len(found.workloads)} workloads ran on two or more GPUs: {found.pairs} pairs to learn from",
        *_missing_lines(found.missing),
        *found.left_out,
        *_protocol_lines(found.protocols),
    ]
    return "\n".join(parts)


def run_text(run: Run) -> str:
    """A run that was imported, in one line."""
    profile = run.profile
    how = "detected" if run.marks == DETECTED else f"from its {run.marks}"
    epochs = f"{count(profile.epochs, 'epoch')} of {seconds_text(profile.epoch_s or 0.0)}"
    return f"{epochs} on {profile.gpu} ({how}), workload {profile.workload}"


def _device_row(device: DeviceCoverage) -> tuple[str, ...]:
    tiers = ", ".join(name if len(device.metrics) == 1 else f"{name} {runs}" for name, runs in device.metrics.items())
    busy = "-" if device.busy is None else f"{100 * device.busy[0]:.0f} to {100 * device.busy[1]:.0f} %"
    return device.name, str(device.runs), str(device.workloads), tiers, interval_text(*device.epoch_s), busy


def _workload_row(workload: WorkloadCoverage, devices: list[str]) -> tuple[str, ...]:
    sizes = (workload.batch_size, workload.image_size, workload.samples, workload.precision)
    # Without sizes the workload's own text is all that tells it.
    network = workload.workload if workload.network is None or workload.batch_size is None else workload.network
    counts = (str(workload.runs.get(device, "-")) for device in devices)
    return network, *("-" if size is None else str(size) for size in sizes), *counts


def _missing_lines(missing: tuple[Missing, ...]) -> list[str]:
    by_gpu: dict[str, list[Missing]] = {}
    for one in missing:
        by_gpu.setdefault(one.gpu, []).append(one)
    lines = []
    for gpu, own in sorted(by_gpu.items()):
        listed = ", ".join(f"{one.workload} ({seconds_text(one.epoch_s)})" for one in own[:_LISTED])
        more = f" and {len(own) - _LISTED} longer ones" if len(own) > _LISTED else ""
        lines.append(f"missing on {gpu}, with the epoch time elsewhere: {listed}{more}")
    return lines


def _protocol_lines(protocols: Mapping[str, str | None]) -> list[str]:
    reasons = set(protocols.values())
    if len(reasons) == 1 and None not in reasons:
        return [f"accuracy on {', '.join(_NEW.values())} cannot be evaluated ({', '.join(protocols)}): {reasons.pop()}"]
    return [
        f"accuracy on {_NEW[name]} {'can be evaluated' if reason is None else 'cannot be evaluated'} ({name})"
        + ("" if reason is None else f": {reason}")
        for name, reason in protocols.items()
    ]
