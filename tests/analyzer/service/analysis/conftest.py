"""A fleet as the watcher would tell of it: GPUs, their jobs and epochs, in a real store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.service.analysis import Analysis
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.telemetry.gpu_report import Report

MakeAnalysis = Callable[..., Analysis]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StateStore]:
    """An empty one."""
    opened = StateStore(tmp_path / "state.db")
    yield opened
    opened.close()


@pytest.fixture
def analysis(store: StateStore, advisor: Advisor) -> MakeAnalysis:
    """Writes reports to the store and makes one round of a new analysis, which is as after a restart."""

    def made(*reports: Report, **settings: Any) -> Analysis:
        store.write_gpus(map(GpuChange, reports))
        one = Analysis(store, advisor, Settings(**settings))
        one.round()
        return one

    return made
