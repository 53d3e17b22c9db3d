"""One demo for all tests: real processes, a real (short) training."""

import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from epochcast.analyzer.demo import recordings
from epochcast.analyzer.demo.run import run_demo


class Demo(NamedTuple):
    """What a demo left: its folder, its summary, what it said meanwhile."""

    folder: Path
    summary: dict[str, Any]
    lines: list[str]


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """It trains on one core: for some seconds on any machine, and another core would only cost more."""
    folder, lines, cores = tmp_path_factory.mktemp("demo") / "out", [], os.sched_getaffinity(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recordings, "_LEAD_S", 0.5)
        os.sched_setaffinity(0, {max(cores)})
        try:
            return Demo(folder, run_demo(folder, live_seconds=5, progress=lines.append), lines)
        finally:
            os.sched_setaffinity(0, cores)
