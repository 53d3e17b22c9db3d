from dataclasses import replace

import numpy as np
import pytest

from epochcast.agent.catalog import catalog
from epochcast.agent.sources import Device
from epochcast.agent.store import BLOCK, DeviceStore

METRICS = (catalog()["sm_active"], catalog()["energy"], catalog()["temperature"])
DEVICE = Device(0, "GPU-0", "Stub", "stub", METRICS)


def filled(rows: int, capacity: int = 1000, device: Device = DEVICE) -> DeviceStore:
    store = DeviceStore(device, capacity, 5.0)
    for row in range(rows):
        store.add(row / 10, np.array([row % 2, row, 50.0]), row / 10)
    return store


@pytest.mark.parametrize("rows", [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_the_newest_row_is_shown_whatever_waits_to_be_summed_up(rows: int) -> None:
    summary = filled(rows).summary(-1.0)
    assert summary is not None
    assert list(summary["last"].values()) == [(rows - 1) % 2, rows - 1, 50.0]
    assert summary["seconds"]["sm_active"] == pytest.approx(sum(row % 2 for row in range(1, rows)) * 0.1)


def test_a_store_of_the_same_shape_goes_on_where_the_old_one_was() -> None:
    old, new = filled(100), DeviceStore(DEVICE, 1000, 5.0)
    old.missed_ticks = 3
    cursor = old.since(0)[0]
    new.take_over(old)
    new.add(10.0, np.array([1.0, 100.0, 51.0]), 10.0)
    assert len(new.samples(-np.inf, np.inf, None)[0]) == 101
    assert new.since(cursor)[2].tolist() == [10.0]
    assert new.missed_ticks == 3
    summary = new.summary(0.0)
    assert summary is not None
    assert summary["seconds"]["sm_active"] == pytest.approx(50 * 0.1 + 0.1)


@pytest.mark.parametrize("capacity", [1000, 40])
def test_rows_are_kept_when_another_source_measures_other_metrics(capacity: int) -> None:
    other = replace(DEVICE, metrics=(catalog()["temperature"], catalog()["power"], catalog()["sm_active"]))
    new = DeviceStore(other, capacity, 5.0)
    new.take_over(filled(100))
    time, columns = new.samples(-np.inf, np.inf, None)
    assert time.tolist() == [row / 10 for row in range(100)][-capacity:]
    assert columns["temperature"].tolist() == [50.0] * len(time)
    assert np.isnan(columns["power"]).all()
    new.add(10.0, np.array([51.0, 300.0, 1.0]), 10.0)
    summary = new.summary(0.0)
    assert summary is not None
    assert summary["seconds"]["sm_active"] == pytest.approx(
        50 * 0.1
    )  # what came before stays; nobody knows what lay between the sources
