"""A command that is watched: its processor time with that of all its processes, and the memory that they take."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

EPOCHCAST = [sys.executable, "-m", "epochcast.analyzer"]
_EVERY_S = 1.0


@dataclass(frozen=True)
class Watched:
    """What a command took.

    Attributes:
        status: its exit code, negative where a signal ended it.
        wall_s, cpu_s: seconds passed, and of processors (user and system, with all processes that it waited for).
        parent_mb, largest_mb, all_mb: most memory at one moment (PSS) of the command itself, of one of its processes, of all.
        output: what it wrote to standard output.
        errors: what it wrote to standard error.
    """

    status: int
    wall_s: float
    cpu_s: float
    parent_mb: float
    largest_mb: float
    all_mb: float
    output: str
    errors: str


def watched(
    arguments: Sequence[str], folder: Path, *, stop: Callable[[], bool] = lambda: False, beside: Sequence[int] = ()
) -> Watched:
    """Run ``epochcast`` with these arguments in a folder; kill it (SIGKILL) once ``stop`` says so.

    The memory of the processes ``beside`` (a cluster's workers, by their ids) counts as that of its own.
    """
    began = time.monotonic()
    with (folder / "output").open("w+") as output, (folder / "errors").open("w+") as errors:
        process = subprocess.Popen(
            [*EPOCHCAST, *arguments], cwd=folder, stdout=output, stderr=errors, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        most, sampled = [0.0, 0.0, 0.0], 0.0
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if stop():
                process.kill()
            if time.monotonic() - sampled > _EVERY_S:
                sampled = time.monotonic()
                most = [max(pair) for pair in zip(most, _memory(process.pid, beside), strict=True)]
            time.sleep(0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - began
        texts = [Path(file.name).read_text(encoding="utf-8") for file in (output, errors)]
    return Watched(process.returncode, wall_s, usage.ru_utime + usage.ru_stime, *most, *texts)


def cpu_seconds(processes: Sequence[int]) -> float:
    """Processor time of processes and their children so far."""
    total = 0.0
    for process in processes:
        for one in (psutil.Process(process), *psutil.Process(process).children(recursive=True)):
            times = one.cpu_times()
            total += times.user + times.system
    return total


def _memory(parent: int, beside: Sequence[int]) -> list[float]:
    """MB (PSS) of the parent, of the largest other process, and of all together."""
    told = {}
    for process in (parent, *beside):
        try:
            for one in (psutil.Process(process), *psutil.Process(process).children(recursive=True)):
                told[one.pid] = one.memory_full_info().pss / 1e6
        except psutil.Error:  # it ended while we looked
            continue
    others = [value for process, value in told.items() if process != parent]
    return [told.get(parent, 0.0), max(others, default=0.0), sum(told.values())]
