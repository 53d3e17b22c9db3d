"""Which traces there are: local folders and stores, names, nodes, versions."""

import os
from collections.abc import Callable
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.finding import Failure
from epochcast.analyzer.fleet.findings_store import FindingsStore
from epochcast.analyzer.fleet.gpu_history import Looking, Trace, analysed
from epochcast.analyzer.fleet.trace_folder import TraceFile, TraceFolder
from epochcast.analyzer.fleet.traces_of import read_places
from epochcast.analyzer.telemetry.settings import PlaceSettings
from epochcast.regressor import load_catalog


def listed(
    path: object, question: str = "q", places: dict[str, PlaceSettings] | None = None, without: Path | None = None
) -> list[TraceFile]:
    found = list(TraceFolder(str(path), places=places or {}, question=question, without=without).traces())
    return [one for one in found if isinstance(one, TraceFile)]


def test_traces_at_any_depth_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in (
        "b/2.csv",
        "b/1.csv.gz",
        "a/x/0.parquet",
        "top.pq",
        ".hidden/3.csv",
        "b/.4.csv",
        "b/1.json",
        "out/gpus.parquet",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    found = listed(tmp_path, without=tmp_path / "out")
    assert sorted(one.name for one in found) == ["a/x/0.parquet", "b/1.csv.gz", "b/2.csv", "top.pq"]
    assert {one.name: one.node for one in found}["a/x/0.parquet"] == "a/x"
    assert {one.name: one.node for one in found}["top.pq"] == tmp_path.name


def test_a_version_changes_with_content_question_and_place(tmp_path: Path) -> None:
    (tmp_path / "n").mkdir()
    path = tmp_path / "n" / "a.csv"
    path.write_text("time,power\n")
    (first,), (same,) = listed(tmp_path), listed(tmp_path)
    assert first == same
    (other,) = listed(tmp_path, question="another")
    (placed,) = listed(tmp_path, places={"n": PlaceSettings(instance="p3.2xlarge")})
    path.write_text("time,power\n1,2\n")
    (changed,) = listed(tmp_path)
    assert len({one.version for one in (first, other, placed, changed)}) == 4
    assert placed.place.instance == "p3.2xlarge"


def test_a_store_that_is_no_folder_of_this_machine(tmp_path: Path, write_gpu: Callable[..., Path]) -> None:
    store = fsspec.filesystem("memory")
    local = write_gpu(tmp_path / "gpu0.parquet")
    store.pipe("/bucket/prefix/node-1/gpu0.parquet", local.read_bytes())
    store.pipe("/bucket/prefix/node-1/gpu1.csv.gz", b"not gzip")
    found = listed("memory://bucket/prefix")
    assert [(one.name, one.node) for one in found] == [("node-1/gpu0.parquet", "node-1"), ("node-1/gpu1.csv.gz", "node-1")]
    finding, failure = analysed(Looking(load_catalog()), found)
    assert finding.device.node == "node-1"
    assert finding.spans[0].epochs
    assert failure.error == "'node-1/gpu1.csv.gz' is not a readable CSV file: Not a gzipped file (b'no')"


def test_a_pipe_is_no_trace_and_a_name_that_is_no_text_is_one(tmp_path: Path, write_gpu: Callable[..., Path]) -> None:
    os.mkfifo(tmp_path / "pipe.parquet")  # to open it would wait for ever
    write_gpu(tmp_path / "gpu0.parquet").rename(tmp_path / "\udcff.parquet")
    (tmp_path / "link.parquet").symlink_to("\udcff.parquet")
    found = analysed(Looking(load_catalog()), listed(tmp_path))
    assert sorted(one.trace for one in found) == ["\\udcff.parquet", "link.parquet"]
    FindingsStore(tmp_path / "out" / "findings.sqlite").add(found)
    assert not any(isinstance(one, Failure) for one in found)


def test_a_folder_that_may_not_be_listed_fails_in_the_place_of_its_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("open/1.csv", "closed/1.csv"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("")
    source = TraceFolder(str(tmp_path), places={}, question="q")
    ls = source._files.ls

    def refuse(folder: str, **options: object) -> object:  # root may list everything
        if folder.endswith("/closed"):
            raise PermissionError(13, "Permission denied", folder)
        return ls(folder, **options)

    monkeypatch.setattr(source._files, "ls", refuse)
    found: list[Trace] = sorted(source.traces(), key=lambda one: one.name)
    assert [one.name for one in found] == ["closed", "open/1.csv"]
    (failure,) = analysed(Looking(load_catalog()), found[:1])
    assert isinstance(failure, Failure)
    assert failure.error == "no permission to read the folder 'closed' and its traces: allow it, or move it elsewhere"


def test_times_in_milliseconds_and_halves_of_characters_fail_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"time": 1.8e12 + 100 * np.arange(900), "power": np.ones(900)}), tmp_path / "ms.parquet")
    (tmp_path / "half.csv").write_text('# {"uuid": "\\ud800"}\ntime,power\n1,1\n2,1\n')
    half, late = analysed(Looking(load_catalog()), sorted(listed(tmp_path), key=lambda one: one.name))
    FindingsStore(tmp_path / "out" / "findings.sqlite").add([half, late])
    assert isinstance(late, Failure)
    assert isinstance(half, Failure)
    assert late.error == "'ms.parquet' holds the time 1.8e+12; times are unix seconds, not milliseconds"
    assert half.error.startswith("the metadata of 'half.csv' is not JSON: ")


def test_nodes_say_what_is_rented(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("node,instance,cloud\n007,p3.2xlarge,aws\nb,,\n")
    assert read_places(path) == {"007": PlaceSettings(instance="p3.2xlarge", cloud="aws"), "b": PlaceSettings()}
    for text, said in (("name\n1\n", "give node"), ("node,instance\na,x\na,y\n", "'a' twice"), ("node,vm\na,x\n", "vm")):
        path.write_text(text)
        with pytest.raises(InputError, match=said):
            read_places(path)


def test_a_log_without_telemetry_is_no_gpu(tmp_path: Path) -> None:
    (tmp_path / "loss.csv").write_text("time,loss\n0,2.5\n1,2.4\n2,2.3\n")
    (trace,) = listed(tmp_path)
    with pytest.raises(InputError, match="no telemetry beside its times, only loss"), trace.opened():
        pass
