"""How well a job uses its GPUs: their arithmetic, the time for which they are held but idle, why their clocks are reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from epochcast.analyzer.jobs.cycles import LEAST_SHARE
from epochcast.analyzer.jobs.sources import Source
from epochcast.analyzer.words import length, money
from epochcast.regressor import Profile
from epochcast.regressor.precision import overall_flop_utilization

_REASONS = {
    "power_cap": "power cap",
    "thermal": "heat",
    "hardware_thermal": "heat, by the hardware",
    "power_brake": "power supply",
    "board_limit": "limit of the board",
    "reliability": "limit of the voltage",
    "clock_setting": "a clock that somebody set",
}


@dataclass(frozen=True)
class GpuUse:
    """Of all GPUs of a job; None for each that their telemetry does not show.

    Attributes:
        ofu: share of their peak of matrix products, 0..1, mean.
        held_idle_s: seconds of the job in which their memory was held and nothing ran, sum.
        held_idle_usd: what these cost; None also where the price of what they run on is not known.
        throttled: reason -> share of time in which it held the clocks down, 0..1, mean.
        reduced_clock: a sentence on the reason that holds them down most; None below 1 % of the time.
    """

    ofu: float | None
    held_idle_s: float | None
    held_idle_usd: float | None
    throttled: dict[str, float] | None
    reduced_clock: str | None


def use_of(sources: Sequence[Source], profiles: Sequence[Profile | None], usd_per_gpu_hour: float | None) -> GpuUse:
    """Return how well a job uses its GPUs.

    Args:
        sources: its GPUs that count.
        profiles: of all of its GPUs, also those that do nothing; None for an unknown one, and then nobody knows the sum.
        usd_per_gpu_hour: each GPU's share of the price of what it runs on; None where that is not known.
    """
    used = [ofu for source in sources if (ofu := overall_flop_utilization(source.profile, source.gpu)) is not None]
    idle = [None if profile is None else profile.held_idle_s for profile in profiles]
    known = [seconds for seconds in idle if seconds is not None]
    held_idle_s = sum(known) if known and len(known) == len(idle) else None
    shares: dict[str, list[float]] = {}
    for source in sources:
        for reason, share in (source.profile.throttled or {}).items():
            shares.setdefault(reason, []).append(share)
    throttled = {reason: mean(each) for reason, each in shares.items()} or None
    return GpuUse(
        ofu=mean(used) if used else None,
        held_idle_s=held_idle_s,
        held_idle_usd=None if held_idle_s is None or usd_per_gpu_hour is None else held_idle_s / 3600 * usd_per_gpu_hour,
        throttled=throttled,
        reduced_clock=_reduced_clock(sources, throttled),
    )


def _reduced_clock(sources: Sequence[Source], throttled: dict[str, float] | None) -> str | None:
    """``11 % of an epoch at reduced clock: power cap (SM clock at 91 % of its highest)``; reasons overlap, so it is one."""
    reason, share = max((throttled or {}).items(), key=lambda item: item[1], default=("", 0.0))
    if share < LEAST_SHARE:
        return None
    clocks = [
        source.profile.metrics["sm_clock"]["mean"] / source.gpu.boost_clock
        for source in sources
        if "sm_clock" in source.profile.metrics
    ]
    of = "an epoch" if all(source.profile.unit == "epoch" for source in sources) else "the time"
    clock = f" (SM clock at {100 * mean(clocks):.0f} % of its highest)" if clocks else ""
    return f"{100 * share:.0f} % of {of} at reduced clock: {_REASONS[reason]}{clock}"


def use_lines(use: GpuUse) -> list[str]:
    """A line on each that is known and worth it."""
    lines = [] if use.ofu is None else [f"tensor cores: {100 * use.ofu:.0f} % of their peak used (OFU)"]
    if use.held_idle_s:
        cost = "" if use.held_idle_usd is None else f", {money(use.held_idle_usd)}"
        lines.append(f"held but idle: {length(use.held_idle_s)}{cost}")
    return lines if use.reduced_clock is None else [*lines, use.reduced_clock]
