"""A step repeated: what is counted, when NVML is read, what it says from a stub, and the peak memory of this process."""

import ctypes
import math
import mmap
import shutil
import time

import numpy as np
import pynvml
import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.occupancy.measurement import modelled_bench, steady_loop
from epochcast.analyzer.backends.occupancy.measurement.modelled_bench import forget_peak, held_bytes, peak_bytes
from epochcast.analyzer.backends.occupancy.measurement.steady_loop import NvmlUtilisation, run_steadily


def test_two_steps_are_not_counted_and_each_is_waited_for():
    calls = []
    steady = run_steadily(lambda: calls.append("step"), lambda: calls.append("finish"), 0.0, lambda: math.nan)
    assert steady.steps == 3
    assert calls == ["step", "finish"] * 5
    assert steady.step_s > 0
    assert steady.iqr_s >= 0
    assert math.isnan(steady.nvml_utilisation)


def test_nvml_is_read_in_the_last_part_alone(monkeypatch):
    monkeypatch.setattr(steady_loop, "_SETTLED_S", 0.05)
    monkeypatch.setattr(steady_loop, "_BETWEEN_READINGS_S", 0.01)
    begun, read = time.perf_counter(), []

    def utilisation():
        read.append(time.perf_counter() - begun)
        return math.nan if len(read) % 2 else 0.5

    steady = run_steadily(lambda: time.sleep(0.001), lambda: None, 0.2, utilisation)
    assert len(read) >= 2
    assert min(read) >= 0.05
    assert steady.nvml_utilisation == 0.5
    assert steady.step_s >= 0.001


@pytest.fixture
def driver(nvml_library, tmp_path, monkeypatch):
    """Says what the stub library is like; statements as in nvml_stub.c."""
    library, scenario = shutil.copy(nvml_library, tmp_path), tmp_path / "scenario"  # loaded anew for each test
    monkeypatch.setenv("NVML_STUB_SCENARIO", str(scenario))
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    scenario.write_text("")
    pynvml.nvmlInit()
    yield scenario.write_text
    pynvml.nvmlShutdown()


def uuid(index):
    text = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index))
    return text.decode() if isinstance(text, bytes) else text


def test_the_gpu_of_the_uuid_is_read_as_a_ratio(driver):
    read = NvmlUtilisation(uuid(1))
    theirs = pynvml.nvmlDeviceGetUtilizationRates(pynvml.nvmlDeviceGetHandleByIndex(1)).gpu / 100
    assert 0 < theirs <= 1
    assert read() == pytest.approx(theirs, abs=0.02)
    assert read.problem == ""


def test_what_the_driver_refuses_is_said_once(driver):
    unknown = NvmlUtilisation("GPU-00000000-0000-0000-0000-000000000000")
    assert math.isnan(unknown())
    assert unknown.problem.startswith("NVML: ")


def test_without_a_driver_it_is_not_known(monkeypatch):
    def missing():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    read = NvmlUtilisation("GPU-1")
    assert math.isnan(read())
    assert "Not Found" in read.problem


LARGE = 80_000_000


def test_the_peak_is_of_what_came_after_it_was_forgotten():
    if not forget_peak():
        pytest.skip("this system keeps no peak that can be forgotten")
    before = held_bytes()
    # Neither an array nor one large write: the allocator may keep what it held.
    with mmap.mmap(-1, LARGE) as held:
        for _ in range(LARGE // 1000):
            held.write(bytes(1000))
    assert peak_bytes() - before > 0.9 * LARGE
    assert forget_peak()
    assert peak_bytes() - before < 0.5 * LARGE


def test_a_system_that_does_not_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(modelled_bench, "_STATUS", tmp_path / "nothing")
    monkeypatch.setattr(modelled_bench, "_CLEAR", tmp_path / "nowhere" / "clear_refs")
    assert np.isnan(peak_bytes())
    assert not forget_peak()
