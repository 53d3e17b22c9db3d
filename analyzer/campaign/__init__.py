"""Campaigns: train a list of workloads on the user's own device, record each, and fill a corpus with them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .device import Device, choose_device
from .overhead import MeasuredOverhead, read_overheads
from .plan import Plan, read_plan, shipped_plans
from .preflight import preflight
from .runner import Result, Runner


def run_campaign(
    plan: Plan,
    corpus: Path,
    *,
    device: str | None = None,
    source: str | None = None,
    time_budget_s: float | None = None,
    retry_failed: bool = False,
    progress: Callable[[str], object] = lambda line: None,
) -> tuple[Device, list[Result]]:
    """Run what ``corpus`` still lacks of ``plan`` on ``device`` (``cpu``, ``cuda:N``); the device and one result for each run.

    Raises InputError, before anything runs, for a network that cannot be built and a device that is not there; see `Runner.run`
    for the rest.
    """
    progress("building the plan's networks")
    workloads = [*(workload for workload, _ in plan.runs()), *plan.overhead]
    found = preflight([(workload.network, workload.image_size) for workload in workloads])
    chosen = choose_device(device, source, found.cuda_devices)
    runner = Runner(
        plan,
        corpus,
        chosen,
        failures=found.failures,
        time_budget_s=time_budget_s,
        retry_failed=retry_failed,
        progress=progress,
    )
    return chosen, runner.run()


__all__ = ["MeasuredOverhead", "Plan", "Result", "read_overheads", "read_plan", "run_campaign", "shipped_plans"]
