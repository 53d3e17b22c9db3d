"""How long calls take on a device, measured in turn as a training iteration runs them.

A kernel that is repeated by itself finds its code, its primitives and its inputs in the caches, and in a training iteration it
does not. So every operator runs once in each round, between all the others, and the median is taken over rounds; what disturbs
the machine for a while then disturbs some rounds of all operators, and not all rounds of one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from lab.convmeter.device import FEWEST_ROUNDS, Timing, timing_of

_WARM_CLOCKS_SECONDS = 0.2
_SPIN_CYCLES = 10_000_000
_BLOCK_SECONDS = 4e-4  # events resolve half a microsecond
_MOST_CALLS = 50  # a launch queue holds about a thousand
_LONGEST_SPIN_SECONDS = 5e-3
_CACHE_BYTES = 32 << 20  # of a device that does not report it
_PREFIXES = {"K": 10, "M": 20}
_MOST_COPIES = 16


class DeviceClock(Protocol):
    """What times a call on a device."""

    cache_bytes: int
    """Size of the last cache before memory."""

    def copies(self, nbytes: float, round_bytes: float) -> int:
        """On how many sets of tensors an operator that moves ``nbytes`` must run in turn to find none of them in the cache."""
        ...

    def time(self, calls: Sequence[Callable[[], Any]], turn: int) -> float:
        """Seconds of one call on the device; ``calls`` do the same work on different memory, ``turn`` is the next one's."""
        ...


class CpuClock:
    """The host's own clock around one call."""

    def __init__(self) -> None:
        texts = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
        sizes = [int(text[:-1]) << _PREFIXES[text[-1]] for text in texts if text[:-1].isdigit() and text[-1] in _PREFIXES]
        self.cache_bytes = max(sizes, default=_CACHE_BYTES)

    def copies(self, nbytes: float, round_bytes: float) -> int:
        """One where the rest of the round sweeps the cache."""
        return _enough(self.cache_bytes, round_bytes)

    def time(self, calls: Sequence[Callable[[], Any]], turn: int) -> float:
        """Seconds of one call; what it answers is freed after the clock has stopped."""
        call = calls[turn % len(calls)]
        begin = time.perf_counter()
        answer = call()
        seconds = time.perf_counter() - begin
        del answer
        return seconds


class CudaClock:
    """CUDA events around a few calls, behind a kernel that spins until the host has queued them all."""

    def __init__(self) -> None:
        self.cache_bytes = int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0)) or _CACHE_BYTES
        deadline = time.perf_counter() + _WARM_CLOCKS_SECONDS
        while time.perf_counter() < deadline:
            torch.cuda._sleep(_SPIN_CYCLES)
            torch.cuda.synchronize()
        self._cycles_per_second = _SPIN_CYCLES / self._between(lambda: torch.cuda._sleep(_SPIN_CYCLES))
        self._blocks: dict[int, tuple[int, float]] = {}  # by identity of the calls: how many in a block, host seconds of each

    def copies(self, nbytes: float, round_bytes: float) -> int:
        """Of its own, as a block repeats one operator."""
        return _enough(self.cache_bytes, nbytes)

    def time(self, calls: Sequence[Callable[[], Any]], turn: int) -> float:
        """Mean seconds of a block of calls; the first time, calls are also run to find how many make one."""
        if id(calls) not in self._blocks:
            begin = time.perf_counter()
            calls[0]()
            host = time.perf_counter() - begin
            alone = self._between(calls[0])
            self._blocks[id(calls)] = min(max(round(_BLOCK_SECONDS / max(alone, 1e-6)), 1), _MOST_CALLS), min(host, alone)
        count, host = self._blocks[id(calls)]
        torch.cuda.synchronize()
        torch.cuda._sleep(int(min(1.5 * count * host + 2e-5, _LONGEST_SPIN_SECONDS) * self._cycles_per_second))

        def block() -> None:
            for number in range(count):
                calls[(turn * count + number) % len(calls)]()

        return self._between(block) / count

    def _between(self, call: Callable[[], Any]) -> float:
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        call()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) * 1e-3


def _enough(cache_bytes: int, moved: float) -> int:
    return min(max(math.ceil(3 * cache_bytes / max(moved, 1.0)), 1), _MOST_COPIES)


def clock_of(device: str) -> DeviceClock:
    """The clock of ``cpu`` or ``cuda``."""
    return CudaClock() if device == "cuda" else CpuClock()


def time_in_rounds(
    calls: Sequence[Sequence[Callable[[], Any]]],
    clock: DeviceClock,
    budget_seconds: float,
    most_rounds: int,
) -> list[Timing]:
    """Time each operator once per round, after a round to warm up.

    Args:
        calls: of each operator, the same work on different memory; rounds take them in turn.
        clock: of the device.
        budget_seconds: no round begins after it, once :data:`FEWEST_ROUNDS` are done.
        most_rounds: after which it ends anyway.
    """
    begin = time.perf_counter()
    for operator in calls:
        clock.time(operator, 0)
    rounds: list[list[float]] = []
    while len(rounds) < most_rounds and (len(rounds) < FEWEST_ROUNDS or time.perf_counter() - begin < budget_seconds):
        rounds.append([clock.time(operator, len(rounds) + 1) for operator in calls])
    return [timing_of(times) for times in zip(*rounds, strict=True)]
