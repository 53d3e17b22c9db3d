"""The table of a corpus: what a run becomes, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
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


def test_runs_are_appended_and_one_recorded_anew_takes_the_place_of_the_old(tmp_path: Path, record_run: RecordRun) -> None:
    for seconds, name in ((2.0, "a"), (3.0, "b"), (4.0, "a")):
        append_run(tmp_path, *record_run(tmp_path, name, epoch_s=seconds))
    assert [(run.run, round(run.profile.epoch_s or 0, 6)) for run in read_runs(tmp_path)] == [("b", 3.0), ("a", 4.0)]


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
        ("epoch_s", -1.0, "row 1 of .* the profile: epoch_s is -1.0"),
        ("workload", None, "row 1 of .* has no workload"),
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
    with pytest.raises(RegressorInputError, match=r"lacks \d+ columns of a corpus"):
        load_corpus(trace)
    file = tmp_path / "corpus.parquet"
    file.write_bytes(trace.read_bytes()[:-100])
    with pytest.raises(RegressorInputError, match="is not a readable Parquet file"):
        read_runs(tmp_path)
    pd.DataFrame({"run": ["a"]}).to_parquet(file)
    with pytest.raises(RegressorInputError, match=r"lacks \d+ columns of a corpus \(gpu, epoch_s, unit, …\)"):
        read_runs(tmp_path)


def test_corpora_of_two_gpus_make_pairs_once_they_are_merged(
    tmp_path: Path, record_run: RecordRun, lab_answer: Callable[..., Any]
) -> None:
    for folder, gpu in (("t4", "Tesla T4"), ("l4", "NVIDIA L4")):
        append_run(tmp_path / folder, *record_run(tmp_path / folder, "a", gpu))
    append_run(tmp_path / "l4", *record_run(tmp_path / "l4", "b", "NVIDIA L4"))
    assert lab_answer("corpus", "report", tmp_path / "t4", status=1)["n"] == 0
    for added in (3, 0):
        merged = lab_answer("corpus", "merge", tmp_path / "t4", tmp_path / "l4", "--out", tmp_path / "all")
        assert merged == {"runs": 3, "added": added, "without_trace": 0}
    covered = lab_answer("corpus", "report", tmp_path / "all")
    assert (covered["n"], covered["paired"]) == (2, 1)
    assert [(one["workload"], one["gpu"]) for one in covered["missing"]] == [("b|500", "T4")]
