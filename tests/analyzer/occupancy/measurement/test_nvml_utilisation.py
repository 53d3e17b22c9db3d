"""NVML's utilisation from a stub of its library, and from none."""

import ctypes
import math
import shutil

import pynvml
import pytest

from epochcast.analyzer.backends.occupancy.measurement.steady_loop import NvmlUtilisation


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
