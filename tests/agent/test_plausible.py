"""Values that cannot be true: each kind of nonsense that drivers give, in every metric, leaves no trace."""

import math

import numpy as np
import pytest

from epochcast.agent.catalog import Metric, catalog
from epochcast.agent.sources import Attribute, Device
from epochcast.agent.store import DeviceStore

START = 1_700_000_000.0
LIMIT_W = 700.0
# What the driver's raw number is multiplied by on its way to us: 1 or the smallest unit it has.
RAW_UNIT = {"ratio": 1e-2, "W": 1e-3, "J": 1e-3, "Hz": 1e6}
NONSENSE = (2.0**32 - 1, 2.0**47, -1.0, 2.0**64 - 1, math.inf)


def store_of(*metrics: Metric) -> DeviceStore:
    return DeviceStore(
        Device(0, "GPU-0", "H200", "gpm", metrics, static={"power_limit": Attribute(LIMIT_W, "nvml")}), 6000, 5.0
    )


def truth(metric: Metric, row: int) -> float:
    """A value of the middle of its range; a counter grows by as much as its kind does in a tenth of a second."""
    if metric.kind == "counter":
        return 1e6 + row * (LIMIT_W / 10 if metric.unit == "J" else 1)
    return {"ratio": 0.5, "W": 650.0, "Hz": 1.98e9, "°C": 60.0}.get(metric.unit, 1.0)


@pytest.mark.parametrize("raw", NONSENSE)
def test_seconds_of_nonsense_leave_no_trace(raw: float) -> None:
    metrics = [
        metric for metric in catalog().values() if metric.unit not in ("bytes", "bytes/s") or raw != 2.0**32 - 1
    ]  # 4 GiB
    # All ones of 32 bits, in mJ, are 4.3 MJ: within the bounds, but no way to come to.
    wrong = [raw * RAW_UNIT.get(metric.unit, 1.0) for metric in metrics]
    store = store_of(*metrics)
    for row in range(1200):
        values = wrong if 300 <= row < 340 else [truth(metric, row) for metric in metrics]
        store.add(START + row / 10, values, row / 10)
    _, columns = store.samples(-math.inf, math.inf, None)
    summary = store.summary(-math.inf)
    assert summary is not None
    for metric in metrics:
        column = columns[metric.name]
        assert np.isnan(column[300:340]).all(), metric.name
        others = np.delete(column, np.s_[300:340])
        assert others == pytest.approx(np.array([truth(metric, row) for row in range(1200) if not 300 <= row < 340]), rel=1e-6)
        assert store.implausible[metric.name] == 40, metric.name
        if metric.unit == "ratio":
            # A gap of less than five seconds is bridged by the reading after it.
            assert summary["seconds"][metric.name] == pytest.approx(0.5 * 119.9, rel=1e-3), metric.name


def test_power_is_at_most_three_times_the_limit() -> None:
    store = store_of(catalog()["power"])
    for row, value in enumerate((700.0, 2099.0, 2101.0)):
        store.add(START + row, [value], 0.0)
    assert store.oldest == START
    assert store.implausible == {"power": 1}


def test_a_counter_that_begins_anew_is_believed_after_a_minute() -> None:
    store = store_of(catalog()["energy"])
    for second in range(200):
        value = 1e6 + 600 * second if second < 100 else 600.0 * (second - 100)  # the driver was loaded again
        store.add(START + second, [value], 0.0)
    _, columns = store.samples(-math.inf, math.inf, None)
    energy = columns["energy"]
    assert np.isnan(energy[100:160]).all()
    assert not np.isnan(energy[160:]).any()
    assert energy[-1] == 600 * 99


def test_a_counter_that_falls_to_nothing_for_a_moment_does_not_begin_anew() -> None:
    store = store_of(catalog()["ecc_uncorrectable_errors"])
    for minute, value in enumerate((3.0, 3.0, 0.0, 3.0, 4.0)):
        store.add(START + 60 * minute, [value], 0.0)
    _, columns = store.samples(-math.inf, math.inf, None)
    assert columns["ecc_uncorrectable_errors"].tolist() == pytest.approx([3, 3, math.nan, 3, 4], nan_ok=True)
