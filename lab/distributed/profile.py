"""Operator times measured here: every unique operator runs on the device at hand, at its own shapes and dtypes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.models.graph import Operator, Weight
from epochcast.analyzer.backends.distributed.plan.job import Precision
from lab.convmeter.device import Device, Timing, check_device, cpu_name, tf32
from lab.distributed.arguments import RandomMemory, runnable
from lab.distributed.operator_text import operator_text
from lab.distributed.profile_cache import ProfileCache
from lab.distributed.timing import DeviceClock, clock_of, time_in_rounds


class ProfiledTimes:
    """The source ``profile``; an :class:`OperatorTimes`.

    Args:
        device: ``cuda`` (the current one) or ``cpu`` (with torch's number of threads).
        precision: what trains; it switches TF32.
        cache: where timings are kept from run to run; None: nowhere.
        budget_seconds: no new round of measurements begins after it (five rounds are always run).
        most_rounds: at which measuring ends before the budget does.
        progress: called with the rounds done and their total.
        clock: another one than the device's; leave out the cache then.

    Attributes:
        estimated: operators that could not be run, with the reason; they take the time of their bytes at the bandwidth
            measured here.
        timings: what was measured or read from the cache, with its spread.

    Raises:
        InputError: there is no such device here.
    """

    def __init__(
        self,
        device: Device,
        precision: Precision,
        cache: ProfileCache | None = None,
        budget_seconds: float = 60.0,
        most_rounds: int = 25,
        progress: Callable[[int, int], None] | None = None,
        clock: DeviceClock | None = None,
    ) -> None:
        check_device(device)
        self.device, self.precision, self.cache = device, precision, cache
        self.budget_seconds, self.most_rounds, self.progress = budget_seconds, most_rounds, progress
        self.estimated: dict[Operator, str] = {}
        self.timings: dict[Operator, Timing] = {}
        self._clock = clock
        self._bandwidth = 0.0

    @property
    def name(self) -> str:
        """Device, software and settings that the times hold for: the cache's key."""
        settings = ", TF32" if self.device == "cuda" and self.precision.tf32 else ""
        return f"{device_name(self.device)}, torch {torch.__version__}{settings}"

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator, shape (n,); communication counts as 0. Measures those not known yet."""
        computing = [operator for operator in dict.fromkeys(operators) if operator.kind != "communication"]
        self._read_cache([operator for operator in computing if operator not in self.timings])
        self._measure([operator for operator in computing if operator not in self.timings])
        return np.array([0.0 if operator.kind == "communication" else self.timings[operator].seconds for operator in operators])

    def optimizer_seconds(self, weights: Sequence[Weight], optimizer: Literal["adam", "sgd"]) -> float:
        """Seconds of one update of these weights by torch's optimizer."""
        key = json.dumps(["optimizer", optimizer, [[*weight.tensor.shape, weight.tensor.dtype] for weight in weights]])
        known = self.cache.get(self.name, [key]) if self.cache else {}
        if key not in known:
            step = optimizer_step(weights, optimizer, self.device)
            step()  # makes its states
            known = {key: time_in_rounds([[step]], self._clock_here(), self.budget_seconds, self.most_rounds)[0]}
            if self.cache:
                self.cache.put(self.name, known)
        return known[key].seconds

    def _read_cache(self, operators: Sequence[Operator]) -> None:
        if self.cache is None or not operators:
            return
        keys = {_key(operator): operator for operator in operators}
        self.timings.update({keys[key]: timing for key, timing in self.cache.get(self.name, keys).items()})

    def _measure(self, operators: Sequence[Operator]) -> None:
        if not operators:
            return
        clock = self._clock_here()
        memory = RandomMemory(self.device, max(3 * clock.cache_bytes, *(int(2 * operator.bytes) for operator in operators)))
        round_bytes = sum(operator.bytes for operator in operators)
        calls: dict[Operator, list[Callable[[], Any]]] = {}
        with tf32(self.precision.tf32), torch.no_grad():
            for operator in operators:
                try:
                    copies = [runnable(operator, memory) for _ in range(clock.copies(operator.bytes, round_bytes))]
                    copies[0]()
                    calls[operator] = copies
                except (RuntimeError, ValueError, TypeError, IndexError) as error:
                    self._estimate(operator, " ".join(str(error).split())[:200], memory)
            timings = time_in_rounds(
                list(calls.values()), clock, self.budget_seconds, self.most_rounds, lambda done: self._tell(done)
            )
        measured = dict(zip(calls, timings, strict=True))
        self.timings.update(measured)
        if self.cache is not None:
            self.cache.put(self.name, {_key(operator): timing for operator, timing in measured.items()})

    def _estimate(self, operator: Operator, reason: str, memory: RandomMemory) -> None:
        self.estimated[operator] = reason
        if not self._bandwidth:
            self._bandwidth = copy_bandwidth(self.device, self._clock_here())
        self.timings[operator] = Timing(operator.bytes / self._bandwidth, 0.0, 0)

    def _clock_here(self) -> DeviceClock:
        if self._clock is None:
            self._clock = clock_of(self.device)
        return self._clock

    def _tell(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, self.most_rounds)


def device_name(device: Device) -> str:
    """GPU and driver, or CPU and threads."""
    if device == "cuda":
        version = Path("/sys/module/nvidia/version")
        driver = version.read_text().strip() if version.exists() else "unknown"
        return f"{torch.cuda.get_device_name()}, driver {driver}"
    return f"{cpu_name()}, {torch.get_num_threads()} threads"


def optimizer_step(weights: Sequence[Weight], optimizer: Literal["adam", "sgd"], device: str) -> Callable[[], Any]:
    """A call that updates random weights once: AdamW, or SGD with momentum, in torch's default implementation.

    The rate is so low that weights and states stay what they are however often it runs. Gradients have the weight's own dtype,
    as torch asks.
    """
    parameters = []
    for weight in weights:
        dtype = getattr(torch, weight.tensor.dtype)
        parameter = torch.rand(weight.tensor.shape, device=device).to(dtype).requires_grad_()
        parameter.grad = torch.rand(weight.tensor.shape, device=device).to(dtype)
        parameters.append(parameter)
    update: torch.optim.Optimizer
    if optimizer == "adam":
        update = torch.optim.AdamW(parameters, lr=1e-9)
    else:
        update = torch.optim.SGD(parameters, lr=1e-9, momentum=0.9)
    return lambda: update.step()


def copy_bandwidth(device: Device, clock: DeviceClock | None = None) -> float:
    """Bytes per second, read and written, of a copy that no cache holds."""
    clock = clock or clock_of(device)
    source = torch.ones(4 * clock.cache_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    (timing,) = time_in_rounds([[lambda: target.copy_(source)]], clock, 0.0, 5)
    return 2.0 * float(source.numel()) / timing.seconds


def _key(operator: Operator) -> str:
    return f"{operator.phase} {operator.name} {operator_text(operator)}"
