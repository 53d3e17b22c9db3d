"""GPUs that stop answering, come back, and say why."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from epochcast.agent.sources.nvml import NvmlSource

LOST, UNKNOWN = pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNKNOWN

Driver = Any
Open = Callable[..., NvmlSource]


@pytest.mark.parametrize("code", [LOST, UNKNOWN, 1, 16])
def test_a_lost_gpu_is_left_out_and_comes_back_while_the_other_goes_on(
    open_source: Open, nvml_driver: Driver, code: int, rows: Any
) -> None:
    source = open_source("gpus 2")
    assert set(rows(source, 0.0)) == {"0", "1"}
    nvml_driver(f"gpus 2\nfail * {code} 0")
    tried = [n for n in range(1, 100) if set(rows(source, n / 10, slow=False, rare=False)) == {"1"}]
    assert len(tried) == 99  # at no tick did GPU 1 suffer
    nvml_driver("gpus 2")
    # Tried at 0.1 s, then 1, 2, 4, 8 s after the try before: next at 15.1 s.
    assert set(rows(source, 15.0, slow=False, rare=False)) == {"1"}
    back = rows(source, 15.1, slow=False, rare=False)
    assert set(back) == {"0", "1"}
    assert back["0"]["temperature"] == 55  # all of it, as after a start
    assert not [key for key in source.blanks if key[1] not in ("nvlink_tx", "nvlink_rx")]  # absent is not blank
    # The backoff starts again.
    nvml_driver("gpus 2\nlost 0")
    rows(source, 15.2)
    nvml_driver("gpus 2")
    assert set(rows(source, 16.3)) == {"0", "1"}


def test_a_gpu_that_stays_away_is_tried_every_minute(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 2")
    nvml_driver("gpus 2\nlost 0")
    for elapsed in (0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 123.0):
        assert set(rows(source, elapsed)) == {"1"}
    nvml_driver("gpus 2")
    assert set(rows(source, 182.9)) == {"1"}
    assert set(rows(source, 183.0)) == {"0", "1"}


def test_with_every_gpu_gone_the_library_is_started_anew(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 2")
    assert set(rows(source, 0.0)) == {"0", "1"}
    # The driver was reloaded: a process that holds the old library gets "Unknown Error" for ever.
    nvml_driver("gpus 2\ngeneration 1\nfail nvmlInit 9 *")
    for elapsed in (0.1, 0.5, 1.1):
        with pytest.raises(RuntimeError, match="no GPU answers"):
            rows(source, elapsed)
    assert str(source.failure) == "nvmlInit: Driver Not Loaded"
    nvml_driver("gpus 2\ngeneration 1")
    with pytest.raises(RuntimeError, match="no GPU answers"):
        rows(source, 1.2)  # not before its time
    back = rows(source, 3.2)
    assert set(back) == {"0", "1"}
    assert source.failure is None


def test_a_gpu_that_is_lost_at_the_start_makes_the_source_outdated_when_it_is_back(
    open_source: Open, nvml_driver: Driver, rows: Any
) -> None:
    source = open_source("gpus 2\nlost 0")
    assert ([device.uuid for device in source.devices], source.counted) == (["GPU-stub-1"], 2)
    assert set(rows(source, 0.0)) == {"1"}
    assert not source.outdated
    nvml_driver("gpus 2")
    rows(source, 1.0, rare=False)
    assert not source.outdated  # looked at once a minute
    rows(source, 60.0)
    assert source.outdated


def test_a_gpu_that_answers_only_unknown_error_at_the_start(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    everything = "".join(
        f"fail {name} {UNKNOWN} 0\n"
        for name in (
            *("nvmlDeviceGetFieldValues", "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage"),
            *("nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetClockInfo", "nvmlDeviceGetTemperature"),
            *("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetBAR1MemoryInfo"),
            *("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetCudaComputeCapability"),
            *("nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetFanSpeed", "nvmlDeviceGetGridLicensableFeatures_v4"),
            *("nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization"),
        )
    )
    source = open_source(f"gpus 2\n{everything}")
    assert [device.uuid for device in source.devices] == ["GPU-stub-1"]
    rows(source, 0.0)
    assert not source.outdated
    nvml_driver("gpus 2")
    rows(source, 60.0)
    assert source.outdated


def test_xid_errors_are_reported_each(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 2\nxid 1 1 13")
    rows(source, 0.0)
    assert source.take_xids() == ()
    nvml_driver("gpus 2\nxid 2 1 95\nxid 3 1 45\nxid 4 1 45")
    rows(source, 0.1, slow=False, rare=False)
    assert source.take_xids() == ()  # looked at once a second
    rows(source, 1.0, rare=False)
    assert source.take_xids() == ((1, 95), (1, 45), (1, 45))
    assert source.take_xids() == ()


def test_the_xid_error_of_the_last_gpu_to_go_is_reported(open_source: Open, nvml_driver: Driver, rows: Any) -> None:
    source = open_source("gpus 1")
    rows(source, 0.0)
    nvml_driver("gpus 1\nxid 1 0 79\nlost 0")
    with pytest.raises(RuntimeError, match="no GPU answers"):
        rows(source, 0.1, slow=False, rare=False)
    assert source.take_xids() == ((0, 79),)


def test_a_driver_without_xid_events_costs_nothing_else(open_source: Open, rows: Any) -> None:
    source = open_source(f"gpus 1\nfail nvmlDeviceRegisterEvents {pynvml.NVML_ERROR_NOT_SUPPORTED} *")
    assert rows(source, 0.0)["0"]["temperature"] == 55
