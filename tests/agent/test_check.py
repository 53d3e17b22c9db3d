"""What ``epochcast-agent check`` finds on a node of different GPUs."""

from collections.abc import Callable

import pytest

from epochcast.agent import check
from epochcast.agent.check import report, text
from epochcast.agent.config import Config


@pytest.fixture(autouse=True)
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process for each report would cost half a second."""
    monkeypatch.setattr(check, "complete", lambda devices: {device.uuid: device.static for device in devices})


def test_a_reason_is_told_once_for_all_metrics_and_gpus(nvml_driver: Callable[[str], None]) -> None:
    nvml_driver("gpus 3\ngpu 0 a100\ngpu 2 a100")
    found = report(Config())
    assert [(gpu["label"], gpu["source"]) for gpu in found["gpus"]] == [("0", "nvml"), ("1", "gpm"), ("2", "nvml")]
    (profiling,) = (problem for problem in found["problems"] if "sm_active" in problem)
    assert profiling.startswith("GPU 0, GPU 2: no gr_engine_active, sm_active, ")
    assert text(found).count("classic NVML has no profiling metrics") == 1
    assert f"   {profiling}" in text(found).splitlines()


def test_what_a_gpu_does_not_have_is_no_fault(nvml_driver: Callable[[str], None]) -> None:
    nvml_driver("gpus 1\nfield 82 3 *\nfield 94 4 *")  # NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NO_PERMISSION
    found = report(Config())
    assert not [problem for problem in found["problems"] if "memory_temperature" in problem]
    (refused,) = (problem for problem in found["problems"] if "pcie_replays" in problem)
    (absent,) = (line for line in text(found).splitlines() if line.startswith("   not on this device: "))
    assert "memory_temperature" in absent and "pcie_replays" not in absent
    assert f"   {refused}" in text(found).splitlines()


def test_gpus_come_in_their_order_each_with_its_instances(nvml_driver: Callable[[str], None]) -> None:
    nvml_driver("gpus 3\ngpu 1 a100\nmig 0 2:3g.71gb 1:1g.18gb")
    found = report(Config())
    assert [gpu["label"] for gpu in found["gpus"]] == ["0", "0.1", "0.2", "1", "2"]
    ampere = found["gpus"][3]
    assert "it needs Hopper or newer" in ampere["refused"]["gpm"]
    assert "   not gpm: source 'gpm' finds no GPU" in text(found)
