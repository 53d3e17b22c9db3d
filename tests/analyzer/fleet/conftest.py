"""Small fleets: telemetry that is cheap to analyse, and whose epochs are obvious."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.traces.trace import Trace, write_trace


def square_wave(seconds: float, period_s: float, *, hertz: float = 5.0, begins: float = 10.0, seed: int = 0) -> pd.DataFrame:
    """A job that trains for four fifths of each epoch, from ``begins`` to 10 s before the end; before and after it is idle."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * hertz)) / hertz
    works = (time >= begins) & (time < seconds - 10)
    trains = (time - begins) % period_s < 0.8 * period_s
    level = np.where(works, np.where(trains, 0.8, 0.3), 0.0) + works * rng.normal(0, 0.02, time.size)
    return pd.DataFrame(
        {
            "time": 1_700_000_000 + time,
            "gr_engine_active": np.clip(level * 1.1, 0, 1),
            "dram_active": np.clip(level * 0.7, 0, 1),
            "power": 60 + 300 * np.clip(level, 0, 1),
            "memory_used": np.where(works, 8e9, 5e8),
        }
    )


@pytest.fixture
def write_gpu() -> Callable[..., Path]:
    """Write one GPU's trace; keywords are the trace's metadata, or `square_wave`'s."""

    def write(path: Path, frame: pd.DataFrame | None = None, **told: Any) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = {name: told.pop(name) for name in ("seconds", "period_s", "hertz", "begins", "seed") if name in told}
        frame = square_wave(**{"seconds": 120.0, "period_s": 12.0, **shape}) if frame is None else frame
        metadata = {"gpu": "Tesla V100-SXM2-16GB", "uuid": f"GPU-{path.stem}", "source": "gpm", **told}
        return write_trace(Trace(frame, **metadata), path)

    return write
