"""What a reader of the state reads again."""

from dataclasses import replace
from pathlib import Path

import pytest

from epochcast.analyzer.live.state_store import GpuChange, StateStore, StoredReports
from epochcast.analyzer.telemetry.gpu_report import GpuDevice, Report
from epochcast.detector import Detection

FOUND = Detection("epochs", 10.0, None, (), 0.9, "track", "wall")
ONE = Report(GpuDevice("GPU-1", "0", "Tesla T4", "n"), "answered", FOUND, 0.0, 2, last_sample=20.0, samples=200)
TWO = replace(ONE, device=replace(ONE.device, uuid="GPU-2"))


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path / "state.db")


def test_only_what_was_written_is_read(store: StateStore) -> None:
    stored = StoredReports(store)
    stored.read()
    assert stored.reports == {}
    store.write_gpus([GpuChange(TWO), GpuChange(ONE)])
    stored.read()
    first = stored.reports
    assert stored.newest == first == {"GPU-1": ONE, "GPU-2": TWO} and list(first) == ["GPU-1", "GPU-2"]
    later = replace(ONE, last_sample=21.0, samples=210)
    store.write_gpus([GpuChange(later, only_pulse=True)])
    stored.read()
    assert stored.reports["GPU-1"] is first["GPU-1"] and stored.newest == {"GPU-1": later, "GPU-2": TWO} == store.reports()
    assert store.report("GPU-1") == later
    store.write_gpus([GpuChange(replace(later, detection=replace(FOUND, period_s=11.0)))])
    stored.read()
    assert stored.newest["GPU-1"].detection.period_s == 11.0 and stored.reports["GPU-2"] is first["GPU-2"]


def test_what_is_forgotten_is_gone_and_comes_back(store: StateStore) -> None:
    stored = StoredReports(store)
    store.write_gpus([GpuChange(ONE), GpuChange(TWO)])
    stored.read()
    store.forget_older(-1.0)
    stored.read()
    assert stored.reports == stored.heard == {}
    store.write_gpus([GpuChange(TWO)])  # its number is smaller than that of the last writing
    stored.read()
    assert stored.reports == {"GPU-2": TWO}


def test_an_empty_file_in_place_of_a_damaged_one_is_read_anew(store: StateStore) -> None:
    stored, other = StoredReports(store), StateStore(store.path)
    store.write_gpus([GpuChange(ONE), GpuChange(TWO)])
    stored.read()
    store.path.rename(store.path.with_suffix(".moved"))
    other.write_gpus([GpuChange(ONE)])
    stored.read()
    assert stored.reports == {"GPU-1": ONE}
