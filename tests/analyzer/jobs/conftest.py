"""What tells of GPUs, and what answers on their jobs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from epochcast.analyzer.telemetry.gpu_report import Report

from . import made_reports

MakeReport = Callable[..., Report]


@pytest.fixture
def report() -> MakeReport:
    """Makes a report of one GPU, see `made_reports`."""
    return made_reports.report
