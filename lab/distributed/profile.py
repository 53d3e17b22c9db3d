"""Operator times measured here: every unique operator runs on the device at hand, at its own shapes and dtypes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from epochcast.analyzer.backends.distributed.models.graph import Operator
from epochcast.analyzer.backends.distributed.plan.job import Precision
from lab.convmeter.device import Device, Timing, check_device, cpu_name, tf32
from lab.distributed.arguments import RandomMemory, runnable
from lab.distributed.timing import clock_of, time_in_rounds


def time_operators(
    operators: Sequence[Operator], device: Device, precision: Precision, budget_seconds: float, most_rounds: int
) -> dict[Operator, Timing]:
    """The time of each operator that can be run, and its spread.

    Args:
        operators: to run; equal ones once.
        device: ``cuda`` (the current one) or ``cpu`` (with torch's number of threads).
        precision: what trains; it switches TF32.
        budget_seconds: no new round of measurements begins after it (five rounds are always run).
        most_rounds: at which measuring ends before the budget does.

    Raises:
        InputError: there is no such device here.
    """
    check_device(device)
    unique, clock = list(dict.fromkeys(operators)), clock_of(device)
    memory = RandomMemory(device, max(3 * clock.cache_bytes, *(int(2 * operator.bytes) for operator in unique)))
    round_bytes = sum(operator.bytes for operator in unique)
    calls: dict[Operator, list[Callable[[], Any]]] = {}
    with tf32(precision.tf32), torch.no_grad():
        for operator in unique:
            try:
                copies = [runnable(operator, memory) for _ in range(clock.copies(operator.bytes, round_bytes))]
                copies[0]()
                calls[operator] = copies
            except (RuntimeError, ValueError, TypeError, IndexError):
                continue
        timings = time_in_rounds(list(calls.values()), clock, budget_seconds, most_rounds)
    return dict(zip(calls, timings, strict=True))


def device_name(device: Device) -> str:
    """GPU and driver, or CPU and threads."""
    if device == "cuda":
        version = Path("/sys/module/nvidia/version")
        driver = version.read_text().strip() if version.exists() else "unknown"
        return f"{torch.cuda.get_device_name()}, driver {driver}"
    return f"{cpu_name()}, {torch.get_num_threads()} threads"
