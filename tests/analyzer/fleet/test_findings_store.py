"""What was found is kept by whole batches; of a trace the newest counts."""

from pathlib import Path

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.finding import Failure, Finding, Quality
from epochcast.analyzer.fleet.findings_store import FindingsStore
from epochcast.analyzer.telemetry.gpu_report import GpuDevice


def finding(trace: str, version: str = "v1", idle: float = 1.0) -> Finding:
    device = GpuDevice(f"GPU-{trace}", "0", "Tesla T4", "node")
    return Finding(trace, version, device, 0.0, 10.0, idle, (), Quality(100, 10.0, 0.0, 0.0, ("power",)))


def test_the_newest_part_counts_and_order_is_that_of_names(tmp_path: Path) -> None:
    store = FindingsStore(tmp_path / "findings.sqlite")
    store.add([finding("b"), Failure("a", "v1", "no")])
    store.add([finding("c"), finding("b", "v2", 5.0)])
    for each in (store, FindingsStore(tmp_path / "findings.sqlite")):
        assert [(one.trace, one.version, one.idle_s) for one in each.findings()] == [("b", "v2", 5.0), ("c", "v1", 1.0)]
        assert [one.trace for one in each.failures()] == ["a"]
        assert (each.version("a"), each.version("b"), each.version("d")) == (None, "v2", None)


def test_what_is_no_longer_there_is_forgotten(tmp_path: Path) -> None:
    store = FindingsStore(tmp_path / "findings.sqlite")
    store.add([finding("a"), finding("b"), Failure("c", "v1", "no")])
    store.keep(["b"])
    assert [one.trace for one in store.findings()] == ["b"]
    assert list(store.failures()) == []


def test_a_file_that_is_no_store_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "findings.sqlite").write_bytes(b"damaged" * 1000)
    with pytest.raises(InputError, match="file is not a database; delete the file, and all is analysed again"):
        FindingsStore(tmp_path / "findings.sqlite")
