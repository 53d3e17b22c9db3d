"""A job that commands are asked about."""

from pathlib import Path

import pandas as pd
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.detector.simulator import simulate


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a simulated training on a T4, alone in its folder."""
    made = simulate(seed=1, epochs=10, epoch_s=6.0)
    trace = Trace(pd.DataFrame({"time": made.time, **made.metrics}), gpu="Tesla T4", source="replay", simulated=True)
    return write_trace(trace, tmp_path_factory.mktemp("traces") / "run.parquet")


@pytest.fixture(scope="session")
def profile(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `epochcast profile` makes of it: a source whose epochs need not be looked for again."""
    path = tmp_path_factory.mktemp("profiles") / "run.json"
    assert main(["profile", str(run), "--out", str(path)]) == 0
    return path
