"""GPUs of one job that show different cycles when each is searched alone: one job, one cycle, however often it is run."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.fleet.analyze import analyze
from epochcast.analyzer.fleet.gpu_history import Looking
from epochcast.analyzer.fleet.together import JobTraces
from epochcast.analyzer.fleet.trace_folder import TraceFolder
from epochcast.analyzer.jobs.advisor import Advisor

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


class Here:
    """Workers that are none: a batch is done when it is submitted, but for jobs of several GPUs where these shall fail."""

    slots = 1

    def __init__(self, *, jobs_fail: bool = False) -> None:
        self.jobs_fail = jobs_fail

    def submit(self, function: Callable[[Sequence[Any]], Any], batch: Sequence[Any], seconds: float) -> Future[Any]:
        future: Future[Any] = Future()
        if self.jobs_fail and isinstance(batch[0], JobTraces):
            future.set_exception(TimeoutError())
        else:
            future.set_result(function(batch))
        return future

    def check(self) -> None:
        pass

    def close(self, *, at_once: bool) -> None:
        pass


@pytest.fixture
def run(tmp_path: Path, advisor: Advisor, write_gpu: Callable[..., Path]) -> Callable[..., tuple[dict[str, Any], pa.Table]]:
    """Analyse the traces of four GPUs into a folder; gives what was done, and the stretches."""
    for number, every in enumerate((1, 1, 1, 2)):
        write_gpu(tmp_path / "traces" / "node" / f"{number}.parquet", steps(number, every))

    def analysed(out: str, workers: Here) -> tuple[dict[str, Any], pa.Table]:
        folder = TraceFolder(str(tmp_path / "traces"), places={}, question="")
        (tmp_path / out).mkdir(exist_ok=True)
        said = analyze(folder.traces(), tmp_path / out, Looking(advisor.catalog), workers, advisor, what="traces")
        return said["run"], pq.read_table(tmp_path / out / "spans.parquet")

    return analysed


def test_gpus_that_differ_by_whole_multiples_have_one_cycle(
    run: Callable[..., tuple[dict[str, Any], pa.Table]], tmp_path: Path
) -> None:
    failed, alone = run("out", Here(jobs_fail=True))
    assert alone["period_s"].to_pylist() == pytest.approx([STEP_S, STEP_S, STEP_S, 2 * STEP_S], rel=0.02)
    assert failed["failed"] == 0, "what each showed alone is there"

    again, spans = run("out", Here())
    assert (again["taken_over"], again["searched"]) == (4, 1), "what failed is tried again"
    assert spans["period_s"].to_pylist() == pytest.approx([STEP_S] * 4, rel=0.02)
    [job] = pq.read_table(tmp_path / "out" / "jobs.parquet").to_pylist()
    assert (job["gpu_count"], job["grouped_by"], job["unit"]) == (4, "phase", "cycle")
    assert job["epoch_s"] == pytest.approx(STEP_S, rel=0.02) and not job["saving_sure"]

    once_more, same = run("out", Here())
    assert once_more["searched"] == 0 and same.equals(spans)

    for number in (0, 1, 2):
        (tmp_path / "traces" / "node" / f"{number}.parquet").unlink()
    _, left = run("out", Here())
    assert left["period_s"].to_pylist() == pytest.approx([2 * STEP_S], rel=0.02), "as alone"
