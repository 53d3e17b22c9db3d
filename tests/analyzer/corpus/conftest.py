"""Runs to fill a corpus with: short traces with labels, as a campaign leaves them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.traces.trace import Trace, write_trace

EPOCHS = 4


@pytest.fixture(scope="session")
def record_run() -> Callable[..., tuple[Path, Path]]:
    """Write ``traces/NAME.parquet`` and its labels into a corpus: four epochs, the first of them half as long again."""

    def record(
        corpus: Path,
        name: str,
        gpu: str = "Tesla T4",
        *,
        epoch_s: float = 2.0,
        busy: float = 0.8,
        start: float = 1_800_000_000.0,
        source: str = "nvml",
        **labels: object,
    ) -> tuple[Path, Path]:
        traces = corpus / "traces"
        traces.mkdir(parents=True, exist_ok=True)
        ends = start + epoch_s * (0.5 + np.arange(1, EPOCHS + 1))
        time = np.arange(start, ends[-1] + 0.5, 0.1)
        wave = busy + 0.05 * np.sin(time)
        activity = {"gpu_utilization": wave, "memory_utilization": wave / 2, "power": 60 * wave, "sm_clock": 1e9 * (1 + wave)}
        columns = {"cpu_utilization": wave} if source == "host" else activity
        trace = Trace(pd.DataFrame({"time": time, **columns}), gpu=gpu, source=source, missed_ticks=1)
        marks = {"epoch_starts": [start, *ends[:-1].tolist()], "epoch_ends": ends.tolist(), "training": True}
        told = {
            "workload": f"{name}|500",
            "group": name.partition("|")[0],
            "samples": 500,
            "batch_size": 32,
            "image_size": 64,
            "precision": "fp32",
        }
        path = write_trace(trace, traces / f"{name.replace('|', '-')}.parquet")
        beside = path.with_suffix(".json")
        beside.write_text(json.dumps(marks | told | labels))
        return path, beside

    return record
