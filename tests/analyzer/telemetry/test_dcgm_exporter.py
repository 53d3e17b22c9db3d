"""A real Prometheus that has scraped dcgm-exporters of either generation, or of both: the same GPUs, values and epochs."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from epochcast.analyzer.live.gpu_watch import GpuWatch
from epochcast.analyzer.telemetry import Rows
from epochcast.analyzer.telemetry.prometheus import PrometheusSource
from epochcast.analyzer.telemetry.settings import PrometheusSettings
from epochcast.analyzer.traces.columns import DCGM_EXPORTER
from epochcast.analyzer.traces.series import Series, table
from epochcast.regressor import load_catalog
from lab.simulator import SimulatedTrace, simulate

from .conftest import Line

MIB = 2.0**20
PAGES = Path(__file__).parents[2] / "agent" / "dcgm_exporter"

# Column of a trace -> what each generation calls it, and how it prints a value of the base unit.
Print = Callable[[float], float]
UP_TO_4_8: dict[str, tuple[str, Print]] = {
    "gpu_utilization": ("DCGM_FI_DEV_GPU_UTIL", lambda ratio: round(100 * ratio)),
    "memory_utilization": ("DCGM_FI_DEV_MEM_COPY_UTIL", lambda ratio: round(100 * ratio)),
    "power": ("DCGM_FI_DEV_POWER_USAGE", lambda watts: round(watts, 6)),
    "energy": ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", lambda joules: round(1000 * joules)),
    "sm_clock": ("DCGM_FI_DEV_SM_CLOCK", lambda hertz: round(hertz / 1e6)),
    "memory_used": ("DCGM_FI_DEV_FB_USED", lambda size: round(size / MIB)),
    "gr_engine_active": ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", lambda ratio: round(ratio, 6)),
    "dram_active": ("DCGM_FI_PROF_DRAM_ACTIVE", lambda ratio: round(ratio, 6)),
}
SINCE_4_9: dict[str, tuple[str, Print]] = {
    "gpu_utilization": ("DCGM_FI_DEV_GPU_UTIL_RATIO", lambda ratio: round(ratio, 2)),
    "memory_utilization": ("DCGM_FI_DEV_MEMORY_UTIL_RATIO", lambda ratio: round(ratio, 2)),
    "power": ("DCGM_FI_DEV_BOARD_POWER_WATTS", lambda watts: round(watts, 6)),
    "energy": ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", round),
    "sm_clock": ("DCGM_FI_DEV_SM_CLOCK_HERTZ", round),
    "memory_used": ("DCGM_FI_DEV_FB_USED_BYTES", round),
    "gr_engine_active": ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", lambda ratio: round(ratio, 6)),
    "dram_active": ("DCGM_FI_PROF_DRAM_UTIL_RATIO", lambda ratio: round(ratio, 6)),
}
# The old step of each column in base units: so far the generations may differ.
STEPS = {"gpu_utilization": 0.01, "memory_utilization": 0.01, "energy": 1.0, "sm_clock": 1e6, "memory_used": MIB}


@pytest.fixture(scope="module")
def job() -> SimulatedTrace:
    """A training of ten epochs of 60 s, and two idle minutes until now."""
    made = simulate(3, epochs=10, epoch_s=60.0, validation_s=8.0, lead_s=120.0, start=0.0)
    shift = round(time.time()) - 5.0 - made.time[-1]
    return SimulatedTrace(made.time + shift, made.metrics, made.epoch_starts + shift, made.epoch_ends + shift, True, made.gpu)


def scraped(job: SimulatedTrace, gpu: int, *upgraded: float) -> Iterator[Line]:
    """Scrapes of an exporter with ``-c 1000`` at one a second: 4.9 from the moment of ``upgraded`` on, before that older."""
    common = {"gpu": str(gpu), "UUID": f"GPU-{gpu}", "modelName": "Tesla T4", "instance": f"10.0.0.{gpu}:9400", "job": "dcgm"}
    old = {**common, "Hostname": f"node-{gpu}", "DCGM_FI_DRIVER_VERSION": "580.65"}
    new = {**common, "hostname": f"node-{gpu}", "DCGM_FI_SYSTEM_DRIVER_VERSION": "580.65"}
    for at in range(9, job.time.size, 10):
        is_new = bool(upgraded) and job.time[at] >= upgraded[0]
        for column, (name, printed) in (SINCE_4_9 if is_new else UP_TO_4_8).items():
            window = job.metrics[column][at - 9 : at + 1]  # those of them that are read once a second have one value
            if not np.isnan(window).all():
                yield name, new if is_new else old, printed(float(np.nanmean(window))), float(job.time[at])


def polled(url: str) -> dict[str, list[Rows]]:
    """All that a service gets of a database, by GPU."""
    found: dict[str, list[Rows]] = {}
    with closing(PrometheusSource(PrometheusSettings(url=url, lag=0.0, history=3600.0))) as source:
        while rows := source.poll():
            for one in rows:
                found.setdefault(one.device.uuid, []).append(one)
    return found


def test_the_same_gpus_values_and_epochs_of_either_generation_and_of_both(past: Any, job: SimulatedTrace) -> None:
    middle = float(job.time[job.time.size // 2])
    url = past([*scraped(job, 0), *scraped(job, 1, 0.0), *scraped(job, 2, middle)])
    found = polled(url)
    assert sorted(found) == ["GPU-0", "GPU-1", "GPU-2"]
    with closing(PrometheusSource(PrometheusSettings(url=url))) as source:  # as `fleet analyze` asks
        assert [device.uuid for device, _ in source.gpus_between(middle - 30.0, middle + 30.0)] == sorted(found)
    devices = [found[uuid][0].device for uuid in sorted(found)]
    assert [(device.node, device.label, device.name) for device in devices] == [
        (f"node-{gpu}", str(gpu), "Tesla T4") for gpu in range(3)
    ]
    epochs = {}
    for uuid, parts in found.items():
        for column in UP_TO_4_8:
            values, wanted = (np.concatenate([one.values[column] for one in rows]) for rows in (parts, found["GPU-0"]))
            np.testing.assert_allclose(values, wanted, rtol=1e-9, atol=STEPS.get(column, 1e-9))
        assert {one.hertz for one in parts} == {1.0}
        watch = GpuWatch(parts[0].device, load_catalog())
        for one in parts:
            watch.take(one)
        report = watch.report()
        assert report.detection.verdict == "epochs"
        assert report.detection.period_s == pytest.approx(float(np.diff(job.epoch_starts)[1:].mean()), rel=0.01)
        epochs[uuid] = [epoch.start for epoch in report.epochs]
        assert len(epochs[uuid]) == 10
        np.testing.assert_allclose(epochs[uuid], job.epoch_starts, atol=2.0)  # a scrape a second
    for uuid in ("GPU-1", "GPU-2"):
        np.testing.assert_allclose(epochs[uuid], epochs["GPU-0"], atol=1.0)


@pytest.mark.parametrize("page", ["page_3", "page_4_9"])
def test_the_pages_that_the_agent_reads_are_the_same_gpus_once_scraped(
    page: str, serve: Any, database: Any, until: Any
) -> None:
    text = (PAGES / f"{page}.prom").read_text()
    address = serve(lambda request: (200, text, {"Content-Type": "text/plain; version=0.0.4"}))
    prometheus = database("prometheus", urlsplit(address).port)
    until(lambda: len(prometheus.query("count_over_time(DCGM_FI_PROF_PCIE_TX_BYTES[1m]) >= 3")) == 2)
    found = polled(prometheus.url)
    devices = sorted((uuid, rows[0].device.node, rows[0].device.name) for uuid, rows in found.items())
    assert devices == [("GPU-0", "node", "NVIDIA A100"), ("GPU-1", "node", "NVIDIA A100")]
    values = {uuid: {name: column[0] for name, column in rows[0].values.items()} for uuid, rows in found.items()}
    both = {"sm_clock": 1410e6, "memory_clock": 1593e6, "power": 61.538, "energy": 1.5e9, "memory_utilization": 0.5}
    both |= {"memory_free": 40000 * MIB, "memory_used": 512 * MIB, "gr_engine_active": 0.75, "pcie_tx": 123456789}
    assert values["GPU-0"] == pytest.approx({**both, "temperature": 41, "gpu_utilization": 0.87, "dram_active": 0.25})
    assert values["GPU-1"] == pytest.approx({**both, "temperature": 42})  # the rest is blank


def test_labels_of_the_old_namespace(past: Any) -> None:
    """Of ``--use-old-namespace``: the UUID by another label, MIG instances too."""
    begin = round(time.time()) - 60.0
    labels = {"gpu": "0", "uuid": "GPU-x", "modelName": "NVIDIA A100", "instance": "10.0.0.9:9400", "job": "dcgm"}
    part = {**labels, "GPU_I_ID": "7"}
    lines: list[Line] = []
    for k in range(10):
        lines.append(("DCGM_FI_DEV_BOARD_POWER_WATTS", labels, 100.0, begin + k))
        lines.append(("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", part, 0.25, begin + k))
    found = polled(past(lines))
    assert {uuid: rows[0].device.label for uuid, rows in found.items()} == {"GPU-x": "0", "GPU-x/7": "0.7"}
    assert set(found["GPU-x"][0].values) == {"power"}
    assert found["GPU-x/7"][0].values["gr_engine_active"].tolist() == [0.25] * 10


def test_one_name_for_percent_and_for_a_ratio() -> None:
    times = np.arange(3.0)
    for printed, ratios in (([0.0, 1.0, 0.87], [0.0, 1.0, 0.87]), ([0.0, 1.0, 87.0], [0.0, 0.01, 0.87])):
        series = [Series({"__name__": "DCGM_FI_DEV_GPU_UTIL_RATIO"}, times, np.array(printed))]
        np.testing.assert_allclose(table(series, DCGM_EXPORTER, exact=True)[1]["gpu_utilization"], ratios)
