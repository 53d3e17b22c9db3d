"""The trace: both file formats round-trip, and every kind of bad file is refused in one sentence."""

import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.trace import Trace, read_trace, write_trace


@pytest.fixture
def trace() -> Trace:
    frame = pd.DataFrame({"time": [10.0, 10.1, 10.3], "power": [55.0, np.nan, 60.5], "gr_engine_active": [0.1, 0.5, 0.9]})
    static = {"memory_total": {"value": 16e9, "source": "nvml"}}
    return Trace(frame, gpu="Tesla T4", uuid="GPU-1", source="nvml", static=static, missed_ticks=1)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_round_trip(trace: Trace, tmp_path: Path, suffix: str) -> None:
    back = read_trace(write_trace(trace, tmp_path / f"run{suffix}"))
    pd.testing.assert_frame_equal(back.frame, trace.frame)
    assert back.metadata() == trace.metadata()
    assert back.metric_names == ("power", "gr_engine_active")


def test_csv_from_standard_input_with_t_and_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("t,cpu\n1.5,0.2\n1.6,0.4\n"))
    trace = read_trace("-")
    assert trace.time.tolist() == [1.5, 1.6]
    assert trace.metrics()["cpu"].tolist() == [0.2, 0.4]
    assert trace.gpu is None


def test_gzipped_csv(tmp_path: Path) -> None:
    path = tmp_path / "run.csv.gz"
    path.write_bytes(gzip.compress(b"time,x\n1,2\n2,3\n"))
    assert read_trace(path).metrics()["x"].tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("x,y\n1,2\n", "no column 'time'"),
        ("time,x\n", "no rows"),
        ("time,x\n1,2\n1,3\n", "repeats 1.000 in data row 2"),
        ("time,x\n2,2\n1,3\n", "goes back from 2.000 in data row 2"),
        ("time,x\n1,2\n,3\n", "no valid time in data row 2"),
        ("time,x\nnan,2\n2,3\n", "no valid time in data row 1"),
        ("time,x\n1,2\n2,busy\n", "'busy' in data row 2"),
        ("time,x\nnoon,2\n", "'noon' in data row 1"),
        ("time,x\n1,inf\n", "inf in data row 1"),
        ('# {"schema": "epochcast.trace/v9"}\ntime,x\n1,2\n', "schema 'epochcast.trace/v9'"),
        ("# {broken\ntime,x\n1,2\n", "not JSON"),
        ("time,x\n1,2,3\n2,3,4,5,6\n", "not a readable CSV"),
        ("time,x\n1,2,3\n2,3,4\n", "not a readable CSV"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "bad.csv" in str(caught.value)


@pytest.mark.parametrize("name", ["missing.csv", "missing.parquet"])
def test_a_missing_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="no such trace file"):
        read_trace(tmp_path / name)


@pytest.mark.parametrize("name", ["junk.csv", "junk.parquet", "junk.csv.gz"])
def test_a_file_of_junk(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(bytes(range(256)) * 4)
    with pytest.raises(InputError, match="not a readable"):
        read_trace(tmp_path / name)


def test_an_unknown_metric_is_named_beside_those_there_are(trace: Trace) -> None:
    with pytest.raises(InputError, match="no metric 'dram'; it has power, gr_engine_active"):
        trace.metrics(["dram"])


def test_nothing_is_written_half(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.parquet or \.csv"):
        write_trace(trace, tmp_path / "run.xlsx")
    with pytest.raises(InputError, match="cannot write"):
        write_trace(trace, tmp_path / "nowhere" / "run.csv")
    assert list(tmp_path.iterdir()) == []
