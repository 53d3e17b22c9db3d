"""Jobs that workers predict: the same rows in the same order, also where a worker is late."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.fleet import job_rows
from epochcast.analyzer.fleet.analyze import write_results
from epochcast.analyzer.fleet.execution import LocalProcesses, Workers
from epochcast.analyzer.fleet.fleet_jobs import UnansweredJob
from epochcast.analyzer.jobs.advisor import Advisor

from .made_findings import fleet


class Backwards:
    """Workers whose futures are done when they are next asked, the last first; those of some jobs are late."""

    slots = 3

    def __init__(self, late: Iterable[int] = ()) -> None:
        self._waiting: list[tuple[Future[Any], Callable[..., Any], Sequence[UnansweredJob]]] = []
        self._late = set(late)

    def submit(self, function: Callable[..., Any], batch: Sequence[Any], seconds: float) -> "Future[Any]":
        self._waiting.append((Future(), function, batch))
        return self._waiting[-1][0]

    def check(self) -> None:
        future, function, batch = self._waiting.pop()
        if self._late & {job.number for job in batch}:
            future.set_exception(TimeoutError())
        else:
            future.set_result(function(batch))

    def close(self, *, at_once: bool) -> None:
        pass


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_rows, "_FEW", 1)
    monkeypatch.setattr(job_rows, "_MOST_JOBS", 2)
    monkeypatch.setattr("epochcast.analyzer.fleet.execution._LOOK_S", 0.01)


def written(advisor: Advisor, out: Path, workers: Workers | None) -> tuple[bytes, dict[str, Any]]:
    out.mkdir()
    summary = write_results(fleet(4), [], advisor, out, analysed="x", workers=workers)
    del summary["made"]
    return (out / "jobs.parquet").read_bytes(), summary


@pytest.fixture(scope="module")
def processes() -> Iterator[LocalProcesses]:
    workers = LocalProcesses(2)
    yield workers
    workers.close(at_once=True)


@pytest.mark.usefixtures("many")
def test_workers_give_the_same_jobs_in_the_same_order(advisor: Advisor, tmp_path: Path, processes: LocalProcesses) -> None:
    alone = written(advisor, tmp_path / "alone", None)
    assert written(advisor, tmp_path / "processes", processes) == alone
    assert written(advisor, tmp_path / "backwards", Backwards()) == alone


@pytest.mark.usefixtures("many")
def test_a_job_whose_prediction_takes_too_long_is_there_without_one(advisor: Advisor, tmp_path: Path) -> None:
    summaries = [written(advisor, tmp_path / "alone", None)[1], written(advisor, tmp_path / "late", Backwards({1}))[1]]
    assert summaries[0]["jobs"] == summaries[1]["jobs"]
    rows, others = (pq.read_table(tmp_path / name / "jobs.parquet").to_pylist() for name in ("alone", "late"))
    assert [row["job"] for row in rows] == [row["job"] for row in others]
    assert [number for number, row in enumerate(rows) if row != others[number]] == [1]
    assert others[1]["best_instance"] is None and rows[1]["best_instance"] is not None
    assert any(note.startswith("nothing is predicted: it took too long") for note in others[1]["notes"])
