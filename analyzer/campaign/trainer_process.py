"""The training process of a workload: its command line, its environment, and why it failed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from .device import Device
from .plan import Workload

# On a machine that others use too, threads that spin while they wait for each other slow a small network down, up to tenfold
# (measured); with this they sleep. A user's own setting wins.
_CALM_THREADS = {"OMP_WAIT_POLICY": "passive"}


def trainer_command(
    workload: Workload, epochs: int, device: Device, *, seed: int, timeout_s: float, blocks: bool = False
) -> list[str]:
    """The command that trains ``workload`` on ``device``, all at once or in blocks (see `trainer`)."""
    options = {
        "network": workload.network,
        "batch-size": workload.batch_size,
        "image-size": workload.image_size,
        "samples": workload.samples,
        "precision": workload.precision,
        "epochs": epochs,
        "seed": seed,
        "device": device.torch,
        "timeout": timeout_s,
    }
    variables = [f"{name}={value}" for name, value in environment(device).items()]
    command = ["env", *variables, sys.executable, "-m", "epochcast.analyzer.campaign.trainer"]
    return [*command, *(f"--{name}={value}" for name, value in options.items()), *(["--blocks"] if blocks else [])]


def environment(device: Device) -> dict[str, str]:
    """Variables that the training process has beside those of this one."""
    return {name: value for name, value in _CALM_THREADS.items() if name not in os.environ} | dict(device.environment)


def reason_of(status: int, said: Sequence[str], timeout_s: float) -> str:
    """One sentence on why a training ended with ``status`` (as a shell gives it) after it ``said`` these lines."""
    if any(line.startswith("Timeout (") for line in said):  # faulthandler's own word, above the place where it hung
        return f"it hung: not finished after {timeout_s:g} s"
    last = next((line.strip() for line in reversed(_without_details(said)) if line.strip()), "")
    if status > 128:
        name = signal.Signals(status - 128).name if status - 128 in set(signal.Signals) else str(status - 128)
        why = " (out of memory, unless somebody sent it)" if name == "SIGKILL" else ""
        return f"ended by {name}{why}" + (f": {last}" if last else "")
    return last or f"ended with status {status} and said nothing"


def _without_details(said: Sequence[str]) -> Sequence[str]:
    """The lines up to the last exception's first one: CUDA's errors go on with four lines of advice."""
    begins = [number for number, line in enumerate(said) if line.startswith("Traceback (most recent call last)")]
    if not begins:
        return said
    raised = (number for number, line in enumerate(said) if number > begins[-1] and line[:1].strip())
    return said[: next(raised, len(said)) + 1]
