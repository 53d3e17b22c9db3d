"""The command on a small fleet: the same tables by one process, by two, by Dask, in one go or killed in the middle."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.cli import main
from epochcast.analyzer.fleet import dask_cluster
from epochcast.analyzer.traces.trace import Trace, write_trace

from ...processes import wait_until
from .conftest import square_wave
from .dask_processes import Cluster

GPUS = 9


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet") / "traces"
    for number in range(GPUS):
        path = folder / f"node-{number // 3}" / f"{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame = square_wave(100, 8 + number // 3, seed=number)
        write_trace(Trace(frame, gpu="Tesla V100-SXM2-16GB", uuid=f"GPU-{number}", source="gpm"), path)
    (folder / "node-0" / "broken.parquet").write_bytes(b"no trace")
    return folder


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "epochcast.analyzer", "fleet", "analyze", *map(str, arguments)]


def analyze(*arguments: object) -> dict[str, Any]:
    with redirect_stdout(StringIO()) as said, redirect_stderr(StringIO()) as progress:
        assert main(["fleet", "analyze", *map(str, arguments), "--json"]) == 0
    assert "\r" not in progress.getvalue()  # a line that is written over is for terminals; a log gets one a minute
    told: dict[str, Any] = json.loads(said.getvalue())
    return told


def tables(out: Path) -> dict[str, pa.Table]:
    found = {name: pq.read_table(out / f"{name}.parquet") for name in ("gpus", "spans", "epochs", "jobs", "failures")}
    assert found["gpus"].num_rows == GPUS
    return {**found, "gpus": found["gpus"].drop_columns("cpu_s")}


@pytest.fixture(scope="module")
def once(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """By one process in one go."""
    out = tmp_path_factory.mktemp("once")
    told = analyze(traces, "--out", out, "--processes", 1)
    assert (told["gpus"], told["jobs"], told["failed"]) == (GPUS, 3, 1)
    assert told["run"]["taken_over"] == 0
    found = tables(out)
    assert found["failures"]["error"].to_pylist()[0].startswith("'node-0/broken.parquet' is not a readable Parquet file")
    assert (out / "report.html").is_file()
    return found


def kept(out: Path) -> int:
    """Traces of which a run has kept something."""
    try:
        with closing(sqlite3.connect(f"file:{out / 'findings.sqlite'}?mode=ro", uri=True)) as file:
            return int(file.execute("SELECT count(*) FROM results").fetchone()[0])
    except sqlite3.OperationalError:  # it is not there yet
        return 0


def ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    ("sign", "code"),
    [
        (signal.SIGKILL, -9),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak),
    ],
)
def test_a_run_that_is_ended_in_the_middle_goes_on(
    traces: Path, once: dict[str, pa.Table], tmp_path: Path, sign: signal.Signals, code: int
) -> None:
    run = subprocess.Popen(
        command(traces, "--out", tmp_path, "--processes", 1), start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: kept(tmp_path))
    children = [int(pid) for pid in Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()]
    run.send_signal(sign)
    said = run.communicate(timeout=60)[1]
    assert run.returncode == code
    assert ("run the same command again" in said) == (sign != signal.SIGKILL)
    wait_until(lambda: all(map(ended, children)))
    assert not (tmp_path / "gpus.parquet").exists()
    held = kept(tmp_path)
    assert 0 < held < GPUS
    told = analyze(traces, "--out", tmp_path, "--processes", 2)
    # The trace that failed is tried again, whether or not it had been.
    assert told["run"]["taken_over"] in (held, held - 1)
    found = tables(tmp_path)
    assert all(found[name].equals(once[name]) for name in once)


def test_what_has_changed_is_analysed_again_and_what_is_gone_is_left_out(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "traces" / "node"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"{number}.parquet").write_bytes((traces / "node-0" / f"{number}.parquet").read_bytes())
    first = analyze(tmp_path / "traces", "--out", tmp_path / "out", "--processes", 1)
    (folder / "0.parquet").unlink()
    (folder / "1.parquet").write_bytes((traces / "node-1" / "4.parquet").read_bytes())
    second = analyze(tmp_path / "traces", "--out", tmp_path / "out", "--processes", 1)
    assert (first["gpus"], second["gpus"]) == (3, 2)
    assert second["run"]["taken_over"] == 1
    assert main(["fleet", "analyze", str(tmp_path / "traces"), "--out", str(tmp_path / "out"), "--processes", "1"]) == 0
    assert "0 of 2 traces could not be analysed; 2 reused from an earlier run" in capsys.readouterr().out
    assert pq.read_table(tmp_path / "out" / "gpus.parquet")["uuid"].to_pylist() == ["GPU-4", "GPU-2"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    cluster = Cluster(tmp_path_factory.mktemp("dask"))
    yield cluster
    cluster.stop()


@pytest.mark.soak
def test_a_worker_that_is_lost_costs_no_trace(
    traces: Path, once: dict[str, pa.Table], tmp_path: Path, cluster: Cluster
) -> None:
    cluster.add_worker()
    run = subprocess.Popen(command(traces, "--out", tmp_path, "--scheduler", cluster.address), stderr=subprocess.PIPE)
    wait_until(lambda: kept(tmp_path))
    cluster.kill_worker(0)
    assert run.wait(200) == 0
    found = tables(tmp_path)
    assert all(found[name].equals(once[name]) for name in once)


def test_a_scheduler_that_goes_away_ends_the_run_with_a_sentence(
    traces: Path,
    once: dict[str, pa.Table],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(dask_cluster, "_NO_SCHEDULER_S", 1.0)
    out, cluster = tmp_path / "out", Cluster(tmp_path)

    def end() -> None:
        wait_until(lambda: kept(out))
        cluster.scheduler.kill()

    ending = threading.Thread(target=end)
    ending.start()
    try:
        assert main(["fleet", "analyze", str(traces), "--out", str(out), "--scheduler", cluster.address]) == 1
    finally:
        ending.join()
        cluster.stop()
    said = capfd.readouterr().err.splitlines()[-1]  # a slow run writes a line of progress a minute before it
    assert said.startswith(f"epochcast: the Dask scheduler at {cluster.address} is gone; finished results are kept")
    assert analyze(traces, "--out", out, "--processes", 1)["run"]["taken_over"] > 0
    found = tables(out)
    assert all(found[name].equals(once[name]) for name in once)
