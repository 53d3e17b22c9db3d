"""What measures: the CPU or the CUDA device at hand, and seconds of repeated calls on it."""

from __future__ import annotations

import platform
import re
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from epochcast.analyzer.errors import InputError

Device = Literal["cpu", "cuda"]

FEWEST_ROUNDS = 5


def failure_reason(error: Exception) -> str:
    """A few words, the same for failures of one kind, so that measurements in bulk can count them."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error):
        return "out of memory"
    text = " ".join(str(error).split())
    if isinstance(error, InputError):
        return text
    if isinstance(error, RuntimeError | ValueError):  # of torch, which goes on with sizes that differ from point to point
        return re.split(r"[.,;:(]", text)[0][:100] or type(error).__name__
    return f"{type(error).__name__}: {text}"[:100]


def check_device(device: str) -> None:
    """Raise InputError unless operators can be measured there."""
    if device not in ("cpu", "cuda"):
        raise InputError(f"no operators can be measured on {device!r}; choose cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("torch finds no CUDA device here; measure with --device cpu, or where the GPU is")


def cpu_name() -> str:
    """The CPU's model as Linux reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def free_bytes(device: str) -> float:
    """Bytes that this program can still take; infinite where the system does not say."""
    if device == "cuda":
        return float(torch.cuda.mem_get_info()[0])
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    kibibytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return 1024.0 * kibibytes[0] if kibibytes else float("inf")


@contextmanager
def tf32(enabled: bool) -> Iterator[None]:
    """Run with TF32 matrix products and convolutions on or off, regardless of the previous setting."""
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [switch.allow_tf32 for switch in switches]
    for switch in switches:
        switch.allow_tf32 = enabled
    try:
        yield
    finally:
        for switch, was in zip(switches, before, strict=True):
            switch.allow_tf32 = was


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: the median over rounds, and the range of the middle half of them."""

    seconds: float
    iqr: float
    rounds: int


def timing_of(times: Sequence[float]) -> Timing:
    """Median and interquartile range of the seconds of at least one round."""
    if len(times) == 1:
        return Timing(times[0], 0.0, 1)
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return Timing(middle, high - low, len(times))
