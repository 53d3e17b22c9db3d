"""What the workers of test_execution do; they import it by its name, so it stands in a module of its own."""

import ctypes
import os
import signal
import time
from collections.abc import Sequence


def done(batch: Sequence[str]) -> list[str]:
    """Each trace's name, unless it says what to do instead."""
    return [_deed(trace) for trace in batch]


def _deed(trace: str) -> str:
    if trace == "die":
        os._exit(3)
    if trace == "sleep":
        time.sleep(60)
    if trace == "hang":  # as code in C may, that keeps everybody else from Python
        ctypes.PyDLL(None).sleep(60)
    if trace == "kill":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    if trace.startswith("slow"):
        time.sleep(1)
    return str({"pid": os.getpid, "parent": os.getppid}.get(trace, lambda: trace)())
