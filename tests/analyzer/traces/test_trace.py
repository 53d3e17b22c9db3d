"""The trace: both file formats round-trip, and every kind of bad file is refused in one sentence."""

import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import Trace, read_trace, write_trace


@pytest.fixture
def trace() -> Trace:
    frame = pd.DataFrame({"time": [10.0, 10.1, 10.3], "power": [55.0, np.nan, 60.5], "gr_engine_active": [0.1, 0.5, 0.9]})
    static = {"memory_total": {"value": 16e9, "source": "nvml"}}
    return Trace(frame, gpu="Tesla T4", uuid="GPU-1", source="nvml", static=static, missed_ticks=1, job={"command": "vit"})


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


def test_gzipped_csv_without_a_line_break_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "run.csv.gz"
    path.write_bytes(gzip.compress(b"time,x\n1,2\n2,3"))
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
        ("time,x\n1,2,3\n2,3,4,5,6\n", "line 2 of"),
        ("time,x\n1,2,3\n2,3,4\n", "3 cells for the 2 columns 'time,x'"),
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
    with pytest.raises(InputError, match="no such file"):
        read_trace(tmp_path / name)


@pytest.mark.parametrize("name", ["junk.csv", "junk.parquet", "junk.csv.gz"])
def test_a_file_of_junk(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(bytes(range(256)) * 4)
    with pytest.raises(InputError, match="not a readable"):
        read_trace(tmp_path / name)


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        (b'{"missed_ticks": "many"}', "'missed_ticks'"),
        (b'{"missed_ticks": 1e400}', "'missed_ticks'"),
        (b'{"gpu": 5}', "'gpu'"),
        (b'{"static": [1]}', "JSON object"),
        (b"[]", "list"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"9" * 5000, "not JSON"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_metadata_of_a_wrong_kind_is_refused_in_one_sentence(tmp_path: Path, metadata: bytes, says: str) -> None:
    table = pa.table({"time": [1.0, 2.0], "x": [1.0, 2.0]}).replace_schema_metadata({b"epochcast": metadata})
    pq.write_table(table, tmp_path / "run.parquet")
    with pytest.raises(InputError, match=says) as caught:
        read_trace(tmp_path / "run.parquet")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (pa.array([[1], [2]]), "in data row 1"),
        (pa.array([b"a", b"b"]), "b'a' in data row 1"),
        (pa.array([1, 2], pa.timestamp("s")), "dates or durations"),
        (pa.array([1, 2], pa.duration("s")), "dates or durations"),
    ],
    ids=["lists", "bytes", "dates", "durations"],
)
def test_columns_that_are_no_numbers_are_refused_in_one_sentence(tmp_path: Path, values: pa.Array, says: str) -> None:
    pq.write_table(pa.table({"time": [1.0, 2.0], "x": values}), tmp_path / "run.parquet")
    with pytest.raises(InputError, match=f"column 'x' of .*{says}"):
        read_trace(tmp_path / "run.parquet")


@pytest.mark.parametrize(
    ("cells", "times", "note"),
    [
        (["1700000000.5", "1700000001"], [1700000000.5, 1700000001], None),
        (["1700000000500", "1700000001000"], [1700000000.5, 1700000001], "unix milliseconds"),
        (["1700000000500000", "1700000001000000"], [1700000000.5, 1700000001], "unix microseconds"),
        (["1700000000500000000", "1700000001000000000"], [1700000000.5, 1700000001], "unix nanoseconds"),
        (["2023-11-14T22:13:20.5Z", "2023-11-14T22:13:21Z"], [1700000000.5, 1700000001], None),
        (["2023-11-15T00:13:20.5+02:00", "2023-11-15T00:13:21+0200"], [1700000000.5, 1700000001], None),
        (
            ["2023-11-14 22:13:20.500", "2023-11-14 22:13:21.000"],
            [1700000000.5, 1700000001],
            "no time zone and is taken as UTC",
        ),
        (
            ["2023/11/14 22:13:20.500", "2023/11/14 22:13:21.000"],
            [1700000000.5, 1700000001],
            "no time zone and is taken as UTC",
        ),
    ],
)
def test_times_in_other_forms_are_recognised_and_that_is_said(
    tmp_path: Path, cells: list[str], times: list[float], note: str | None
) -> None:
    path = tmp_path / "run.csv"
    for title in ("time", "timestamp", "Time", "t"):
        path.write_text(f"\ufeffx,{title}\n" + "".join(f"1,{cell}\n" for cell in cells))
        trace = read_trace(path)
        assert trace.time == pytest.approx(times, abs=1e-6)
        assert trace.metric_names == ("x",)
        said = "unix seconds" if note is None and title == "timestamp" and cells[0].startswith("17") else note
        assert [said in one for one in trace.notes] == ([] if said is None else [True])


def test_dates_in_parquet_are_no_nanoseconds(tmp_path: Path) -> None:
    for zone, notes in (("UTC", 0), (None, 1)):
        times = pa.array([1_700_000_000_500, 1_700_000_001_000], pa.timestamp("ms", zone))
        pq.write_table(pa.table({"timestamp": times, "x": [1.0, 2.0]}), tmp_path / "run.parquet")
        trace = read_trace(tmp_path / "run.parquet")
        assert trace.time.tolist() == [1700000000.5, 1700000001]
        assert len(trace.notes) == notes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("timestamp,x\n2026-01-31T23:59:59Z,1\nyesterday,2\n", "timestamp of .* is 'yesterday' in data row 2.*ISO 8601"),
        ("time,x\n1700000000,1\n2026-01-31T23:59:59Z,2\n", "holds '2026-01-31T23:59:59Z' in data row 2.*the same in every row"),
        ("time,x\n2026-01-31T23:59:59Z,1\n,2\n", "no valid time in data row 2"),
        ("time,Timestamp,x\n1,2,1\n1,3,2\n", "time repeats 1.000 in data row 2 .*several GPUs.*keep one row per time"),
        ("time,x\n2,1\n1,2\n", "goes back from 2.000 .*several GPUs.*the earliest first"),
        ("when,x\n1,2\n", "no column 'time' .*it has when, x; add such a column"),
        ("time,TIME,t,x\n1,2,3,4\n", None),
    ],
)
def test_times_that_are_refused_say_what_to_do(tmp_path: Path, text: str, says: str | None) -> None:
    (tmp_path / "run.csv").write_text(text)
    if says is None:
        assert read_trace(tmp_path / "run.csv").metric_names == ("TIME", "t", "x")
    else:
        with pytest.raises(InputError, match=says):
            read_trace(tmp_path / "run.csv")


@pytest.mark.parametrize(
    "pandas",
    [
        b"{",
        b"[]",
        b'{"columns": 1}',
        b'{"index_columns": ["time"], "columns": []}',
        b'{"index_columns": ["time"], "columns": [], "column_indexes": [{}]}',
    ],
)
def test_what_pandas_says_of_its_index_is_not_followed(tmp_path: Path, pandas: bytes) -> None:
    table = pa.table({"time": [1.0, 2.0], "x": [1.0, 2.0]}).replace_schema_metadata({b"pandas": pandas})
    pq.write_table(table, tmp_path / "run.parquet")
    assert read_trace(tmp_path / "run.parquet").metric_names == ("x",)


def test_an_index_of_pandas_is_no_metric_unless_it_has_a_name(tmp_path: Path) -> None:
    frame = pd.DataFrame({"time": [1.0, 2.0, 3.0], "x": [1.0, 2.0, 3.0]})
    frame[1:].to_parquet(tmp_path / "part.parquet", index=True)
    frame.loc[[0, 2]].to_parquet(tmp_path / "rows.parquet")
    frame.set_index("time").to_parquet(tmp_path / "named.parquet")
    for name, times in (("part", [2.0, 3.0]), ("rows", [1.0, 3.0]), ("named", [1.0, 2.0, 3.0])):
        trace = read_trace(tmp_path / f"{name}.parquet")
        assert trace.metric_names == ("x",)
        assert trace.time.tolist() == times


def test_a_parquet_column_given_twice_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table([pa.array([1.0])] * 3, names=["time", "x", "x"]), tmp_path / "run.parquet")
    with pytest.raises(InputError, match="more than one column 'x'"):
        read_trace(tmp_path / "run.parquet")


def test_a_folders_name_makes_no_column_and_a_folder_is_no_trace(trace: Trace, tmp_path: Path) -> None:
    folder = tmp_path / "gpu=0"
    folder.mkdir()
    assert read_trace(write_trace(trace, folder / "run.parquet")).metric_names == trace.metric_names
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_trace(tmp_path / "folder.parquet")


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # the latter is Python's in the C locale
def test_junk_on_standard_input(monkeypatch: pytest.MonkeyPatch, errors: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(bytes(range(1, 256))), encoding="utf-8", errors=errors))
    with pytest.raises(InputError, match="'standard input' is not a readable CSV file"):
        read_trace("-")


def test_an_unknown_metric_is_named_beside_those_there_are(trace: Trace) -> None:
    with pytest.raises(InputError, match="no metric 'dram'; it has power, gr_engine_active"):
        trace.metrics(["dram"])


def test_nothing_is_written_half(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.parquet or \.csv"):
        write_trace(trace, tmp_path / "run.xlsx")
    with pytest.raises(InputError, match="cannot write"):
        write_trace(trace, tmp_path / "nowhere" / "run.csv")
    assert list(tmp_path.iterdir()) == []
