"""The table of a corpus: what a run becomes, and that it is always complete."""

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.regressor import InputError as RegressorInputError
from epochcast.regressor import load_corpus
from lab.corpus.table import append_run, read_runs

RecordRun = Callable[..., tuple[Path, Path]]


def test_a_run_becomes_a_row_of_its_profile_over_the_true_epochs(tmp_path: Path, record_run: RecordRun) -> None:
    append_run(tmp_path, *record_run(tmp_path, "ResNet50|32|64"))
    (run,) = read_runs(tmp_path)
    assert (run.run, run.device, run.source, run.missed_ticks) == ("ResNet50-32-64", "gpu", "nvml", 1)
    assert (run.samples, run.batch_size, run.image_size, run.precision) == (500, 32, 64, "fp32")
    assert (run.recorded_at, run.trace) == (1_800_000_000.0, "traces/ResNet50-32-64.parquet")
    profile = run.profile
    assert (profile.gpu, profile.workload, profile.group) == ("T4", "ResNet50|32|64|500", "ResNet50")
    assert (profile.epochs, profile.unit, profile.first_epoch_excluded) == (3, "epoch", True)
    assert profile.epoch_s == pytest.approx(2.0) and profile.first_epoch_s == pytest.approx(3.0)
    assert (
        set(profile.metrics) == {"gpu_utilization", "memory_utilization", "power", "sm_clock"} and profile.feature_set == "nvml"
    )
    assert profile.metrics["gpu_utilization"]["mean"] == pytest.approx(0.8, abs=0.05)
    assert load_corpus(tmp_path) == load_corpus(tmp_path / "corpus.parquet") == [profile]
    assert json.loads(pq.read_schema(tmp_path / "corpus.parquet").metadata[b"epochcast"]) == {"schema": "epochcast.corpus/v1"}


def test_runs_are_appended_and_one_recorded_anew_takes_the_place_of_the_old(tmp_path: Path, record_run: RecordRun) -> None:
    for seconds, name in ((2.0, "a"), (3.0, "b"), (4.0, "a")):
        append_run(tmp_path, *record_run(tmp_path, name, epoch_s=seconds))
    assert [(run.run, round(run.profile.epoch_s or 0, 6)) for run in read_runs(tmp_path)] == [("b", 3.0), ("a", 4.0)]


def test_a_full_disk_leaves_the_old_table_and_is_an_oserror(
    tmp_path: Path, record_run: RecordRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_run(tmp_path, *record_run(tmp_path, "a"))
    before = (tmp_path / "corpus.parquet").read_bytes()
    second = record_run(tmp_path, "b")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as raised:
        append_run(tmp_path, *second)
    assert raised.value.errno == errno.ENOSPC
    assert (tmp_path / "corpus.parquet").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} <= {"corpus.parquet", ".corpus.parquet.lock", "traces"}


def test_a_process_that_is_killed_leaves_a_whole_table(tmp_path: Path, record_run: RecordRun) -> None:
    """Ten times at another moment of an endless appending."""
    append_run(tmp_path, *record_run(tmp_path, "a"))
    pair = [str(path) for path in record_run(tmp_path, "b")]
    code = (
        "import sys; from pathlib import Path; from lab.corpus.table import append_run; print('ready', flush=True)\n"
        "while True: append_run(*map(Path, sys.argv[1:]))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), *pair], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline()
    seen = set()
    for _ in range(10):
        time.sleep(0.013)
        process.send_signal(signal.SIGSTOP)  # what a reader sees at this moment is what a kill would leave
        seen.add(tuple(run.run for run in read_runs(tmp_path)))
        process.send_signal(signal.SIGCONT)
    process.kill()
    process.communicate()
    seen.add(tuple(run.run for run in read_runs(tmp_path)))
    assert seen <= {("a",), ("a", "b")}
    append_run(tmp_path, *map(Path, pair))  # the lock of the dead holds nobody up
    assert [run.run for run in read_runs(tmp_path)] == ["a", "b"]


def _append(corpus: Path, pair: tuple[Path, Path]) -> None:
    append_run(corpus, *pair)


def test_two_campaigns_at_once_lose_no_run(tmp_path: Path, record_run: RecordRun) -> None:
    pairs = [record_run(tmp_path, f"run{number}") for number in range(8)]
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.starmap(_append, [(tmp_path, pair) for pair in pairs])
    assert {run.run for run in read_runs(tmp_path)} == {f"run{number}" for number in range(8)}


def test_a_table_that_pandas_rewrote_is_still_one(tmp_path: Path, record_run: RecordRun) -> None:
    append_run(tmp_path, *record_run(tmp_path, "a"))
    append_run(tmp_path, *record_run(tmp_path, "b", batch_size=None, group=None))
    append_run(tmp_path, *record_run(tmp_path, "c", source="host", gpu="AMD EPYC"))
    before = read_runs(tmp_path)
    file = tmp_path / "corpus.parquet"
    frame = pd.read_parquet(file)
    frame.assign(note="mine")[frame["run"] != "a"].to_parquet(file)
    assert read_runs(tmp_path) == before[1:]
    append_run(tmp_path, *record_run(tmp_path, "a"))
    assert read_runs(tmp_path) == [*before[1:], before[0]]


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("epoch_s", -1.0, "row 1 of .* the profile's epoch_s is -1.0"),
        ("workload", None, "row 1 of .* has no workload"),
        ("device", "tpu", "has device 'tpu'; it must be 'gpu' or 'cpu'"),
        ("recorded_at", None, "has recorded_at None; it must be unix seconds"),
        ("samples", "many", "has samples 'many'; it must be a whole number"),
        ("trace", 5, "has trace 5; it must be text"),
        ("power_min", None, "row 1 of .* metric 'power' holds"),
    ],
)
def test_a_row_that_is_no_run_is_named(tmp_path: Path, record_run: RecordRun, column: str, value: object, says: str) -> None:
    append_run(tmp_path, *record_run(tmp_path, "a"))
    frame = pd.read_parquet(tmp_path / "corpus.parquet")
    frame[column] = [value]
    frame.to_parquet(tmp_path / "corpus.parquet")
    with pytest.raises((InputError, RegressorInputError), match=says):
        read_runs(tmp_path)


def test_other_files_are_no_corpus(tmp_path: Path, record_run: RecordRun) -> None:
    with pytest.raises(RegressorInputError, match="there is no corpus at"):
        read_runs(tmp_path)
    trace, _ = record_run(tmp_path, "a")
    with pytest.raises(
        RegressorInputError, match=r"has schema 'epochcast\.trace/v1'; this version reads 'epochcast\.corpus/v1'"
    ):
        load_corpus(trace)
    file = tmp_path / "corpus.parquet"
    file.write_bytes(trace.read_bytes()[:-100])
    with pytest.raises(RegressorInputError, match="is not a readable Parquet file"):
        read_runs(tmp_path)
    pd.DataFrame({"run": ["a"]}).to_parquet(file)
    with pytest.raises(RegressorInputError, match=r"lacks \d+ columns of a corpus \(gpu, epoch_s, unit, …\)"):
        read_runs(tmp_path)
