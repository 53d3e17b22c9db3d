"""Traces of PyTorch's profiler: what is read from a good one, and one sentence about every bad one."""

import gzip
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from made_launches import Launch, occupancy

from epochcast.analyzer.backends.occupancy.kernel_files import KernelFile, read_any
from epochcast.analyzer.backends.occupancy.kernel_files.kernel_file import occupancy_rows
from epochcast.analyzer.backends.occupancy.launch.gpu_limits import limits_by_capability, limits_of
from epochcast.analyzer.backends.occupancy.launch.kernel_table import COLUMNS, count_skipped
from epochcast.analyzer.errors import InputError
from epochcast.regressor import InputError as UnknownGpu
from epochcast.regressor import load_catalog

A100 = {
    "id": 0,
    "name": "NVIDIA A100-SXM4-80GB",
    "totalGlobalMem": 84974239744,
    "computeMajor": 8,
    "computeMinor": 0,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerBlock": 65536,
    "warpSize": 32,
    "sharedMemPerBlock": 49152,
    "numSms": 108,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerBlockOptin": 166912,
    "sharedMemPerMultiprocessor": 167936,
}
GEMM = {"grid": [64, 1, 3], "block": [128, 1, 1], "registers per thread": 96, "shared memory": 98304}


def kernel(duration: float = 25.5, category: str = "kernel", name: str = "gemm", **details: Any) -> dict[str, Any]:
    args = {"device": 0, "stream": 7, "est. achieved occupancy %": 0, **GEMM, **details}
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": 1e6, "dur": duration, "args": args}


def write(path: Path, *events: Any, properties: list[Any] | None = None) -> Path:
    trace = {"schemaVersion": 1, "deviceProperties": [A100] if properties is None else properties, "traceEvents": list(events)}
    text = json.dumps(trace)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


COPY = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 1, "dur": 9, "args": {"device": 0, "bytes": 4}}
CPU_OP = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 9, "args": {}}


@pytest.mark.parametrize("name", ["trace.json.gz", "named otherwise"])
def test_a_trace_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    file = read_any(write(tmp_path / name, CPU_OP, COPY, kernel(), kernel(10.0), {"ph": "M", "name": "process_name"}))
    assert list(file.table.columns) == list(COLUMNS)
    first = file.table.iloc[0]
    assert (first["kernel"], first["gpu"], first["device"]) == ("gemm", "NVIDIA A100-SXM4-80GB", 0)
    assert (first["grid_x"], first["grid_z"], first["block_x"], first["registers_per_thread"]) == (64, 3, 128, 96)
    assert (first["shared_memory"], first["estimate"], first["count"]) == (98304, 0, 1)
    assert file.table["duration"].tolist() == pytest.approx([25.5e-6, 10e-6])
    assert file.passed_over == {"memory_copy": 1}
    assert file.limits == {"NVIDIA A100-SXM4-80GB": limits_by_capability("NVIDIA A100-SXM4-80GB", 8.0, 108)}


def test_what_the_trace_tells_of_its_gpu_counts(tmp_path: Path) -> None:
    """A slice of an A100 (MIG) has its name and fewer SMs."""
    file = read_any(write(tmp_path / "t.json", kernel(), properties=[{**A100, "numSms": 14}]))
    rows = occupancy_rows(file, "t.json", load_catalog())
    assert rows["grid"].tolist() == [1 * 4 / 64]
    assert rows["sm_count"].tolist() == [14]


def test_two_gpus_of_one_name_that_differ_are_told_apart(tmp_path: Path) -> None:
    parts = [{**A100, "numSms": 14}, {**A100, "id": 1, "numSms": 42}]
    file = read_any(write(tmp_path / "t.json", kernel(), kernel(device=1), properties=parts))
    assert file.table["gpu"].tolist() == ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB (1)"]
    assert [file.limits[name].sm_count for name in file.table["gpu"]] == [14, 42]


def test_older_traces_write_kernel_with_a_capital_and_tell_less(tmp_path: Path) -> None:
    sparse = {name: A100[name] for name in ("id", "name", "computeMajor", "computeMinor", "numSms")}
    event = kernel(category="Kernel")
    del event["args"]["device"]
    file = read_any(write(tmp_path / "t.json", event, properties=[sparse]))
    (grid,) = occupancy_rows(file, "t.json", load_catalog())["grid"]
    assert grid == pytest.approx(4 / 64)


def test_traces_of_pytorch_1_8_have_other_names(tmp_path: Path) -> None:
    """As in the kineto repository's tb_plugin/test/gpu_metrics_input.json."""
    gpu = {
        "id": 0,
        "name": "Tesla V100-DGXS-32GB",
        "major": 7,
        "minor": 0,
        "maxThreadsPerMultiProcessor": 2048,
        "regsPerBlock": 65536,
        "regsPerMultiprocessor": 65536,
        "warpSize": 32,
        "sharedMemPerMultiprocessor": 98304,
        "multiProcessorCount": 80,
        "sharedMemPerBlockOptin": 98304,
    }
    details = {"device": 0, "registers per thread": 55, "shared memory": 16384, "theoretical occupancy %": 5}
    event = {"cat": "Kernel", "name": "sgemm", "dur": 3, "args": {**details, "grid": [32, 1, 1], "block": [256, 1, 1]}}
    (tmp_path / "t.json").write_text(json.dumps({"computeProperties": [gpu], "traceEvents": [event]}))
    file = read_any(tmp_path / "t.json")
    assert file.limits == {gpu["name"]: limits_by_capability(str(gpu["name"]), 7.0, 80)}
    assert file.table["estimate"].tolist() == [0.05]
    assert occupancy_rows(file, "t.json", load_catalog())["grid"].tolist() == pytest.approx([32 / 80 * 8 / 64])


@pytest.mark.parametrize("properties", [[], ["A100"], [{}], [{"name": "A100", "computeMajor": 8}], [{**A100, "numSms": None}]])
def test_a_trace_that_does_not_tell_its_gpu_needs_it_named(tmp_path: Path, properties: list[Any]) -> None:
    path = write(tmp_path / "t.json", kernel(), properties=properties)
    file = read_any(path)
    with pytest.raises(InputError, match="does not name its GPU; name it with --gpu"):
        occupancy_rows(file, str(path), load_catalog())
    rows = occupancy_rows(file, str(path), load_catalog(), load_catalog().resolve("A100 SXM4 80GB"))
    assert rows["grid"].tolist() == [4 / 64]


def test_a_list_of_events_alone_is_a_trace_too(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps([kernel()]))
    assert len(read_any(tmp_path / "t.json").table) == 1


def test_another_gpu_can_be_asked_for(tmp_path: Path) -> None:
    file = read_any(write(tmp_path / "t.json", kernel(**{"shared memory": 1024})))
    t4 = load_catalog().resolve("T4")
    rows = occupancy_rows(file, "t.json", load_catalog(), t4)
    expected = occupancy(Launch((64, 1, 3), (128, 1, 1), 96, 1024), limits_of(t4))
    assert rows["gpu"].tolist() == ["T4"]
    assert rows["grid"].tolist() == pytest.approx([expected.grid])


def test_kernels_without_launch_configuration_are_counted(tmp_path: Path) -> None:
    """Kernels of CUDA graphs can have zeros; other tools' traces have no grid at all."""
    zeros = kernel(grid=[0, 0, 0], block=[0, 0, 0])
    odd = [kernel(grid=None), kernel(block="128"), kernel(grid=[1, 1]), {"cat": "kernel", "name": "bare", "dur": 1}, "no event"]
    path = write(tmp_path / "t.json", kernel(), zeros, *odd)
    rows = occupancy_rows(read_any(path), str(path), load_catalog())
    assert rows["grid"].notna().tolist() == [True, *[False] * 5]
    assert count_skipped(rows) == {"no_launch_configuration": 5}
    assert rows["duration"].tolist() == pytest.approx([*[25.5e-6] * 5, 1e-6])


@pytest.mark.parametrize("began", [1_621_401_187_225_275, 88_437_691_101.749, -5.5])
def test_kernels_start_at_the_first_of_them_whatever_the_clock(tmp_path: Path, began: float) -> None:
    """A clock of microseconds since 1970 (until PyTorch 2.2), or since a base that the trace names."""
    events = [{**kernel(), "ts": began + later} for later in (7, 2, 0, 2)]
    file = read_any(write(tmp_path / "t.json", COPY, *events, {**kernel(), "ts": None}))
    assert file.table["start"].tolist()[:4] == pytest.approx([7e-6, 2e-6, 0, 2e-6], abs=2e-11)
    assert math.isnan(file.table["start"].iloc[4])


def test_a_trace_without_times_has_no_starts(tmp_path: Path) -> None:
    event = kernel()
    del event["ts"]
    assert read_any(write(tmp_path / "t.json", event)).table["start"].isna().all()


def test_a_duration_that_is_missing_or_negative_is_none(tmp_path: Path) -> None:
    event = kernel()
    del event["dur"]
    file = read_any(write(tmp_path / "t.json", event, kernel(-1.0)))
    assert all(math.isnan(one) for one in file.table["duration"])


def test_names_in_any_bytes_and_control_characters_are_read(tmp_path: Path) -> None:
    content = json.dumps({"traceEvents": [kernel(name="NAME")], "deviceProperties": [A100]}).encode()
    (tmp_path / "t.json").write_bytes(content.replace(b"NAME", b"k\xff\tern"))
    assert read_any(tmp_path / "t.json").table["kernel"].tolist() == ["k\ufffd\tern"]


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = write(tmp_path / "t.json.gz", kernel()).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert len(read_any(Path("-")).table) == 1


WHOLE = json.dumps({"deviceProperties": [A100], "traceEvents": [kernel()] * 50})


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"\x7fELF\0\0\1", "is a binary file"),
        (b"PK\x03\x04rest", "is a ZIP archive"),
        (gzip.compress(WHOLE.encode(), mtime=0)[:-200], "ends in the middle of its gzip stream"),
        (gzip.compress(WHOLE.encode(), mtime=0)[:40] + b"x" * 400, "is damaged gzip"),
        (WHOLE[: len(WHOLE) // 2].encode(), "ends in the middle of its JSON"),
        (b'{"traceEvents" [1, 2], "a": 3, "b": 4}', "is not JSON"),
        (b"[" * 100_000, "is not"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not a trace"),
        (b'{"events": []}', "without a list 'traceEvents'"),
        (b'{"cat": "cpu_op"}', "without a list 'traceEvents'"),
        (b"[]", "holds no kernel"),
        (json.dumps({"traceEvents": [CPU_OP], "deviceProperties": [A100]}).encode(), "the CPU alone was"),
        (json.dumps({"traceEvents": [kernel()], "deviceProperties": [{**A100, "warpSize": 64}]}).encode(), "NVIDIA GPUs alone"),
        (b"time,power\n1,2\n", "is no profile that can be read"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(InputError) as refused:
        read_any(tmp_path / "bad")
    sentence = str(refused.value)
    assert says in sentence and str(tmp_path / "bad") in sentence
    assert "\n" not in sentence and ";" in sentence


@pytest.mark.parametrize("name", ["missing.json", "folder"])
def test_a_file_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=name):
        read_any(tmp_path / name)


@pytest.mark.parametrize("suffix", [".ncu-rep", ".nsys-rep", ".sqlite"])
def test_reports_of_nvidias_tools_get_their_own_remedy(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"report{suffix}"
    path.write_bytes(b"NVR\0binary")
    with pytest.raises(
        InputError, match="ncu --import FILE --csv --page raw" if suffix == ".ncu-rep" else "PyTorch's profiler"
    ):
        read_any(path)


def test_an_architecture_that_is_not_known_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", kernel(), properties=[{**A100, "computeMajor": 2}])
    with pytest.raises(
        InputError, match=r"'NVIDIA A100-SXM4-80GB' has compute capability 2\.0; occupancy is calculated for 3\.5"
    ):
        read_any(path)


@pytest.mark.parametrize("grid", [None, [0, 0, 0]])
def test_a_trace_without_any_launch_configuration_is_refused_whatever_its_gpu(tmp_path: Path, grid: Any) -> None:
    file = read_any(write(tmp_path / "t.json", kernel(grid=grid), properties=[]))
    for gpu in (None, load_catalog().resolve("T4")):
        with pytest.raises(InputError, match=r"'t.json' holds no launch configuration; record it again"):
            occupancy_rows(file, "t.json", load_catalog(), gpu)


def test_launches_that_the_named_gpu_cannot_run_are_an_error(tmp_path: Path) -> None:
    file = read_any(write(tmp_path / "t.json", kernel()))
    with pytest.raises(InputError, match=r"none of the launches in 't.json' is possible on T4; name the GPU they ran on"):
        occupancy_rows(file, "t.json", load_catalog(), load_catalog().resolve("T4"))


def test_a_gpu_of_which_the_file_tells_no_more_than_a_name_is_looked_up(tmp_path: Path) -> None:
    read = read_any(write(tmp_path / "t.json", kernel()))
    file = KernelFile(read.format, read.table)
    assert occupancy_rows(file, "t.json", load_catalog())["grid"].tolist() == [4 / 64]
    with pytest.raises(UnknownGpu, match="ambiguous"):
        occupancy_rows(KernelFile(read.format, read.table.assign(gpu="V100")), "t.json", load_catalog())
