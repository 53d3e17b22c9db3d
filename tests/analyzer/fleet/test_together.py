"""GPUs of one job that show different cycles when each is searched alone: one job, one cycle, whoever runs it and how often."""

import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.cli import main

STEP_S = 0.9


def steps(seed: int, every: int) -> pd.DataFrame:
    """Two minutes of one job's steps on one GPU, of which only each ``every``-th is as strong there."""
    jitter = np.random.default_rng(0)
    begins = 1_700_000_000 + np.cumsum(STEP_S * jitter.normal(1, 0.01, 150))
    rng = np.random.default_rng(seed)
    time = 1_700_000_000 + 0.1 * np.arange(1200)
    step = np.maximum(np.searchsorted(begins, time, side="right") - 1, 0)
    works = (time - begins[step]) % STEP_S < 0.6 * STEP_S
    level = np.where(works, 0.9 - 0.3 * (step % every > 0), 0.2) + rng.normal(0, 0.02, time.size)
    return pd.DataFrame(
        {
            "time": time,
            "gr_engine_active": np.clip(level, 0, 1),
            "dram_active": np.clip(0.7 * level, 0, 1),
            "power": 300 * level,
        }
    )


@pytest.fixture
def traces(tmp_path: Path, write_gpu: Callable[..., Path]) -> Path:
    for number, every in enumerate((1, 1, 1, 2)):
        write_gpu(tmp_path / "traces" / "node" / f"{number}.parquet", steps(number, every))
    return tmp_path / "traces"


def analyze(*arguments: object) -> dict[str, Any]:
    with redirect_stdout(StringIO()) as said, redirect_stderr(StringIO()):
        assert main(["fleet", "analyze", *map(str, arguments), "--processes", "1", "--json"]) == 0
    told: dict[str, Any] = json.loads(said.getvalue())
    return told


def test_gpus_that_differ_by_whole_multiples_have_one_cycle(traces: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = analyze(traces, "--out", out)
    assert first["run"]["searched"] == 1
    [job] = pq.read_table(out / "jobs.parquet").to_pylist()
    assert (job["gpu_count"], job["grouped_by"], job["unit"], job["saving_sure"] or False) == (4, "phase", "step", False)
    assert job["epoch_s"] == pytest.approx(STEP_S, rel=0.02)
    spans = pq.read_table(out / "spans.parquet")
    assert spans["period_s"].to_pylist() == pytest.approx([STEP_S] * 4, rel=0.02)
    again = analyze(traces, "--out", out)
    assert (again["run"]["taken_over"], again["run"]["searched"]) == (4, 0)
    assert pq.read_table(out / "spans.parquet").equals(spans)


def test_without_its_job_a_gpu_shows_what_it_shows_alone(traces: Path, tmp_path: Path) -> None:
    out, alone = tmp_path / "out", tmp_path / "alone"
    analyze(traces, "--out", out)
    for number in (0, 1, 2):
        (traces / "node" / f"{number}.parquet").unlink()
    analyze(traces, "--out", out)
    analyze(traces, "--out", alone)
    spans = pq.read_table(out / "spans.parquet")
    assert spans.equals(pq.read_table(alone / "spans.parquet"))
    assert spans["period_s"].to_pylist() == pytest.approx([2 * STEP_S], rel=0.02)
