"""What a GPU, its driver or an older DCGM does not give is unmeasured, with the reason, and costs nothing else."""

import sys
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("status", "reason"),
    [("DCGM_ST_MODULE_NOT_LOADED", "profiling module is not loaded"), ("DCGM_ST_NOT_SUPPORTED", "cannot profile this GPU")],
)
def test_without_profiling_the_rest_is_measured(
    reset: Any, open_dcgm: Any, status: str, reason: str, read: Any, column: Any
) -> None:
    reset(profiling_error=getattr(sys.modules["dcgm_structs"], status))
    source = open_dcgm()
    device = source.devices[0]
    assert reason in device.unmeasured["sm_active"]
    assert len(device.unmeasured) == 12
    rows = read(source, 3)
    assert len(column(source, rows, 0, "power")[0]) >= 25
    assert not source.blanks


def test_profiling_that_fails_only_when_watched_is_told_field_by_field(
    reset: Any, open_dcgm: Any, read: Any, column: Any
) -> None:
    reset(profiling_error=sys.modules["dcgm_structs"].DCGM_ST_REQUIRES_ROOT)
    source = open_dcgm()
    assert "does not watch its field 1002: DCGM error -29" in source.devices[0].unmeasured["sm_active"]
    assert len(column(source, read(source, 2), 0, "power")[0]) >= 15


def test_a_profiling_field_that_the_gpu_lacks_is_unmeasured(reset: Any, open_dcgm: Any) -> None:
    reset(profiling_fields=(1001, 1002, 1003, 1004))
    unmeasured = open_dcgm().devices[0].unmeasured
    assert "sm_active" not in unmeasured
    assert unmeasured["dram_active"] == "DCGM's profiling does not support it on this GPU"


def test_a_field_that_an_older_dcgm_does_not_know_costs_only_itself(reset: Any, open_dcgm: Any, read: Any, column: Any) -> None:
    host = reset(unknown_fields=frozenset({157}))
    source = open_dcgm()
    assert "does not watch its field 157" in source.devices[0].unmeasured["power"]
    assert len(host.watches) == 3  # no other field was fast; those of the other tiers are together again
    assert len(column(source, read(source, 2), 0, "energy")[0]) >= 2


def test_what_the_driver_never_gives_is_unmeasured_per_device(host: Any, open_dcgm: Any, read: Any) -> None:
    engine = sys.modules["host_engine"]
    host.overrides[1, 150] = engine.INT64_BLANK + 2
    host.overrides[1, 155] = engine.FP64_BLANK + 3.0
    host.overrides[0, 101] = sys.modules["dcgm_structs"].DCGMError(-6)
    source = open_dcgm()
    unmeasured = [dict(device.unmeasured) for device in source.devices]
    assert unmeasured[1] == {
        "temperature": "not supported by this GPU and driver",
        "power_average": "DCGM's host engine lacks the permission to read it",
    }
    assert unmeasured[0] == {"memory_clock": "not supported by this GPU and driver"}
    read(source, 2)
    assert not source.blanks  # what is known to be missing is not missed every second
