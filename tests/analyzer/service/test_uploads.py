"""Traces that were sent: read as the command line reads them, and refused where they would be too much."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.service.uploads import (
    MOST_CELLS,
    MOST_COLUMNS,
    Kind,
    read_upload,
    source_of_upload,
)
from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.simulator import simulate


@pytest.fixture(scope="module")
def trace() -> Trace:
    made = simulate(seed=3, epochs=8, epoch_s=12.0)
    columns = {name: made.metrics[name] for name in ("dram_active", "sm_active", "power")}  # more take longer to search
    return Trace(pd.DataFrame({"time": made.time, **columns}), gpu="Tesla T4", source="replay", simulated=True)


def _parquet(columns: dict[str, object], **options: object) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def test_a_small_file_that_unfolds_to_too_much_is_refused_before_it_is_read() -> None:
    rows = MOST_CELLS // 2 + 1
    body = _parquet({"time": pa.array(np.zeros(rows, np.int8)), "sm_active": pa.nulls(rows)}, compression="zstd")
    assert len(body) < 200_000
    with pytest.raises(InputError, match=f"has {rows} rows of 2 columns"):
        read_upload(body, "parquet")


def test_too_many_columns_are_refused() -> None:
    body = _parquet({f"m{number}": [1.0] for number in range(MOST_COLUMNS + 1)})
    with pytest.raises(InputError, match=f"{MOST_COLUMNS} columns"):
        read_upload(body, "parquet")
    with pytest.raises(InputError, match=f"{MOST_COLUMNS} columns"):
        read_upload(",".join(f"m{number}" for number in range(MOST_COLUMNS + 1)).encode() + b"\n1\n", "csv")


def test_rows_that_the_footer_does_not_tell_are_noticed(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = write_trace(trace, tmp_path / "run.parquet").read_bytes()
    monkeypatch.setattr("epochcast.analyzer.service.uploads.MOST_CELLS", 100)
    with pytest.raises(InputError, match="100 cells"):
        read_upload(body, "parquet")


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a" * 1000] * 3),
        pa.array([[1.0], [2.0], [3.0]]),
        pa.array([{"a": 1}] * 3),
        pa.array([b"x"] * 3),
        pa.array([1, 2, 3], pa.timestamp("ns")),
        pa.array(["x", "x", "x"]).dictionary_encode(),
    ],
    ids=["text", "list", "struct", "bytes", "times", "dictionary"],
)
def test_only_numbers_are_read_from_parquet(column: pa.Array) -> None:
    with pytest.raises(InputError, match="give integers or floats"):
        read_upload(_parquet({"time": [1.0, 2.0, 3.0], "sm_active": column}), "parquet")


@pytest.mark.parametrize(
    ("body", "kind", "sentence"),
    [
        (b"", "csv", "the body is empty"),
        (b"", "parquet", "the body is empty"),
        (b"PAR1", "parquet", "not a readable Parquet file"),
        (b"PAR1" + b"\xff" * 100 + b"PAR1", "parquet", "not a readable Parquet file"),
        (b"time,sm_active\n1,2\n", "parquet", "not a readable Parquet file"),
        (b"time,a\n1,\0\n", "csv", "NUL"),
        (b"a,b\n1,2\n", "csv", "no column 'time'"),
    ],
)
def test_what_is_no_trace_is_one_sentence(body: bytes, kind: Kind, sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        read_upload(body, kind)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_trace_of_no_known_gpu_is_refused_and_can_be_told(tmp_path: Path) -> None:
    body = b"time,gpu_utilization\n" + b"".join(b"%d,0.9\n" % number for number in range(100))
    with pytest.raises(InputError, match="which GPU"):
        source_of_upload(body, "csv", None, None, "default")
    assert source_of_upload(body, "csv", "T4", None, "default").profile.gpu == "T4"
