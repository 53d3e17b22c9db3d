"""A damaged profile is read or refused in one sentence."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.kernel_files import read_any
from epochcast.analyzer.backends.occupancy.kernel_files.kernel_file import occupancy_rows
from epochcast.analyzer.backends.occupancy.launch.kernel_table import summarise
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

CATALOG = load_catalog()
DETAILS = {"device": 0, "grid": [64, 1, 3], "block": [128, 1, 1], "registers per thread": 96, "shared memory": 1024}
KINETO = json.dumps(
    {
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0, "numSms": 108}],
        "traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 1, "dur": 9.5, "args": DETAILS}],
    }
).encode()
NCU = (
    b'"ID","Kernel Name","Block Size","Grid Size","Device","CC","launch__registers_per_thread","gpu__time_duration.sum"\n'
    b'"","","","","","","register/thread","ns"\n"0","gemm","(128, 1, 1)","(64, 1, 3)","0","8.0","96","1,234"\n'
)
BENCH = b"key,kernel,count,grid,block,regs,smem,mean_us,grid_pct\nlstm,gemm,3,64x1x3,128x1x1,96,1024,9.5,60\n"
TABLE = (
    b"trace,device,cc,sms,kernel,dur_us,grid_x,grid_y,grid_z,block_x,block_y,block_z,regs_per_thread,shared_mem,"
    b"est_achieved_occupancy_pct\na.json,A100,8.0,108.0,gemm,9.5,64,1,3,128,1,1,96,1024,62\n"
)
FILES = {"kineto": KINETO, "packed": gzip.compress(KINETO), "ncu": NCU, "bench": BENCH, "table": TABLE}


@pytest.mark.parametrize("kind", FILES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_files_are_read_or_refused(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    """Some bytes replaced by others, and the end cut off or not."""
    content = bytearray(FILES[kind])
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + 1] = data.draw(
            st.sampled_from([b"", b"0", b"-", b"9999999999", b"null", b'"', b",", b"\n", b"\xff"])
        )
    kept = data.draw(st.integers(1, len(content)) | st.just(len(content)))
    path = tmp_path / "profile"
    path.write_bytes(content[:kept])
    try:
        rows = occupancy_rows(read_any(path), "profile", CATALOG, CATALOG.resolve("A100 SXM4 80GB"))
    except InputError as refused:
        assert "\n" not in str(refused)
        return
    summary = summarise(rows)
    assert not (summary.grid.mean < 0 or summary.grid.max > 1)


def test_a_kernel_with_a_number_beyond_all_floats_has_no_occupancy(tmp_path: Path) -> None:
    trace = json.loads(KINETO)
    (kernel,) = trace["traceEvents"]
    trace["traceEvents"].append({**kernel, "args": {**DETAILS, "grid": [10**400, 1, 1]}})
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    rows = occupancy_rows(read_any(tmp_path / "trace.json"), "trace", CATALOG, None)
    assert rows["grid"].notna().tolist() == [True, False] and rows["duration"].tolist() == [9.5e-6, 9.5e-6]


def test_the_whole_files_are_read(tmp_path: Path) -> None:
    for kind, content in FILES.items():
        (tmp_path / kind).write_bytes(content)
        assert len(read_any(tmp_path / kind).table) == 1
