"""Columns derived from readings: worked examples, each computed by hand."""

import numpy as np
import pytest

from epochcast.agent.catalog import catalog
from epochcast.agent.sources import Attribute, Device
from epochcast.agent.store import DeviceStore

GPM = ("gr_engine_active", "tensor_active", "sm_clock", "memory_used")
GIB = 2.0**30


def device(*names: str, clock: float | None = 1.98e9) -> Device:
    static = {} if clock is None else {"max_sm_clock": Attribute(clock, "nvml")}
    return Device(0, "GPU-0", "NVIDIA H200", "gpm", tuple(catalog()[name] for name in names), static=static)


def derived(device: Device, *rows: tuple[float, ...], block: int = 1) -> dict[str, list[float]]:
    """The derived columns of rows a tenth of a second apart, requested after every ``block`` of them."""
    store = DeviceStore(device, 100, 5.0)
    for number, row in enumerate(rows):
        store.add(1.7e9 + number / 10, row, 0.0)
        if number % block == 0:
            store.samples(0.0, 1.0, None)
    _, columns = store.samples(0.0, 2e9, None)
    return {name: np.round(columns[name].astype(float), 6).tolist() for name in ("ofu", "held_idle") if name in columns}


@pytest.mark.parametrize(
    ("job", "tensor", "clock", "ofu"),
    [  # measured on an H200 (data/h200): it reached 0.627, 0.756 (of FP32), 0.164 and 0 of its peak
        ("FP16 product, clock reduced by the power cap", 0.901, 1409e6, 0.641166),
        ("FP32 product without TF32: the tensor cores are idle", 0.0, 1976e6, 0.0),
        ("small BF16 product at the full clock", 0.156, 1980e6, 0.156),
        ("idle", 0.0, 1980e6, 0.0),
    ],
)
def test_ofu_is_tensor_activity_at_the_highest_clock(job: str, tensor: float, clock: float, ofu: float) -> None:
    assert derived(device(*GPM), (1.0, tensor, clock, 60 * GIB))["ofu"] == [pytest.approx(ofu, abs=1e-6)], job


@pytest.mark.parametrize("block", [1, 3, 100])
def test_the_clock_is_held_until_its_next_reading_is_due(block: int) -> None:
    nan = float("nan")
    rows = [(1.0, 0.5, 1.98e9 if number == 0 else nan, nan) for number in range(20)]
    held = derived(device(*GPM), *rows, block=block)["ofu"]
    assert held[:16] == [0.5] * 16
    assert np.isnan(held[16:]).all()


def test_held_idle_is_memory_without_activity() -> None:
    rows = [(0.0, 0.0, 1e9, 20 * GIB), (0.009, 0.0, 1e9, 20 * GIB), (0.01, 0.0, 1e9, 20 * GIB), (0.0, 0.0, 1e9, 0.9 * GIB)]
    assert derived(device(*GPM), *rows)["held_idle"] == [1.0, 1.0, 0.0, 0.0]


def test_utilisation_is_the_activity_where_there_is_no_better() -> None:
    nan = float("nan")
    rows = [(0.0, 20 * GIB), (nan, nan), (0.5, 20 * GIB), (nan, nan)]
    assert derived(device("gpu_utilization", "memory_used"), *rows) == {"held_idle": [1.0, 1.0, 0.0, 0.0]}


@pytest.mark.parametrize(
    "given",
    [
        device("gr_engine_active", "gpu_utilization", "sm_clock"),
        device("tensor_active", "memory_used"),
        device("tensor_active", "sm_clock", clock=None),
        device("tensor_active", "sm_clock", clock=0.0),
    ],
)
def test_nothing_is_guessed_from_less(given: Device) -> None:
    assert derived(given, tuple(1.0 for _ in given.metrics)) == {}


def test_a_recorded_column_stays_as_it_is() -> None:
    assert derived(device(*GPM, "ofu"), (1.0, 0.5, 1.98e9, GIB, 0.25))["ofu"] == [0.25]
