"""A whole fleet's traces on a real Dask cluster."""

import gzip
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ..analyzer.fleet.dask_processes import Cluster

TABLES = ("gpus", "spans", "epochs", "jobs", "failures")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.stop()


def test_a_fleet_on_dask_has_the_epochs_and_answers_that_each_trace_has_alone(
    answer: Callable[..., Any], cluster: Cluster, shared_data: Path, tmp_path: Path
) -> None:
    """Two H100 that save a checkpoint after each step, a TITAN X, and a file that is no trace."""
    names = {"h100_ckpt1_gpu0": "node-a", "h100_ckpt1_gpu1": "node-a", "titanx_2025-12-04-01-22-31_gpu0": "node-b"}
    for name, node in names.items():
        (tmp_path / "traces" / node).mkdir(parents=True, exist_ok=True)
        with gzip.open(shared_data / "real_traces" / f"{name}.csv.gz", "rt") as whole:
            (tmp_path / "traces" / node / f"{name}.csv").write_text("".join(islice(whole, 3500)))  # six minutes
    (tmp_path / "traces" / "node-a" / "broken.parquet").write_bytes(b"no trace")
    found = {}
    for out, workers in (("dask", ("--scheduler", cluster.address)), ("here", ("--processes", "1"))):
        assert answer("fleet", "analyze", tmp_path / "traces", "--out", tmp_path / out, *workers)["failed"] == 1
        found[out] = {name: pq.read_table(tmp_path / out / f"{name}.parquet") for name in TABLES}
    found = {out: {**tables, "gpus": tables["gpus"].drop_columns("cpu_s")} for out, tables in found.items()}
    assert all(found["dask"][name].equals(found["here"][name]) for name in TABLES)
    assert [Path(row["trace"]).stem for row in found["dask"]["gpus"].to_pylist()] == list(names)
    jobs = {row["nodes"][0]: row for row in found["dask"]["jobs"].to_pylist()}
    assert (jobs["node-a"]["gpu_count"], jobs["node-a"]["grouped_by"]) == (2, "phase")
    assert jobs["node-a"]["cycle"] == "checkpoint"
    assert jobs["node-a"]["epoch_s"] == pytest.approx(17.3, rel=0.05)
    assert jobs["node-a"]["best_instance"] and jobs["node-a"]["best_usd_per_hour"] > 0
    assert found["dask"]["gpus"].to_pylist()[-1]["epochs"] == 10  # of no known model: no prediction
    assert "node-b" in (tmp_path / "dask" / "report.html").read_text()
