"""What the workers of test_execution do; they import it by its name, so it stands in a module of its own."""

import os
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
    return str(os.getpid()) if trace == "pid" else trace
