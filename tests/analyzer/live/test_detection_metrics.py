"""Metrics of detectors and sources: those of the table, no other, with the report's values."""

import logging
from dataclasses import replace
from typing import NoReturn

import pytest
from prometheus_client import CollectorRegistry

from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport
from epochcast.analyzer.live.metrics import DetectionMetrics, catalog
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, Report
from epochcast.detector import Cycle, Detection

from .conftest import device

FOUND = Detection("epochs", 10.0, None, (), 0.9, "track", "wall")
REPORT = Report(device(), "answered", FOUND, 5.0, 7, epochs=(EpochRecord(5.0, 15.5, 0.9, 5.0),), last_sample=16.0, samples=99)
CYCLES = (
    Cycle("checkpoint", 12.0, 0.9, "it saves", 0.25, 3.0),
    Cycle("checkpoint", 24.0, 0.9, "it saves", 0.5, 12.0),
    Cycle("unknown", 30.0, 0.9, "no metric shows", None, None),
)
SAVES = replace(REPORT, device=device("GPU-3"), detection=replace(FOUND, period_s=12.0, cycles=CYCLES))
STEPS = replace(REPORT, device=device("GPU-2"), detection=replace(FOUND, verdict="steps", period_s=0.5), epochs=())
REPORTS = {"GPU-1": REPORT, "GPU-2": STEPS, "GPU-3": SAVES}
WATCHER = WatcherReport(
    WatcherHealth(backlog=3, dropped=4, cpu_s=0.5, store_errors=6, gpus=2),
    [SourceStatus("agent", "http://a", up=True, polls=4, errors=1, newest=16.0, lag_s=2.5, clock_offset_s=-3.5)],
)
LABELS = {"gpu": "0", "name": "Tesla T4", "node": "node-1"}


@pytest.fixture
def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    made.register(DetectionMetrics(lambda: (REPORTS, WATCHER)))
    return made


def test_exactly_the_metrics_of_the_table_are_told(registry: CollectorRegistry) -> None:
    told = {sample.name: set(sample.labels) for family in registry.collect() for sample in family.samples}
    of_service = ("epochcast_gpu_training_job_info",)
    wanted = {
        metric.name: set(metric.labels)
        for metric in catalog().values()
        if metric.by in ("detector", "both") and metric.name not in of_service
    }
    assert told == wanted
    for family in registry.collect():
        name = family.name if family.type != "counter" else f"{family.name}_total"
        assert (family.type, family.documentation) == (catalog()[name].kind, catalog()[name].help)


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("epochcast_gpu_epoch_seconds", {"uuid": "GPU-1"}, 10.0),
        ("epochcast_gpu_epoch_seconds", {"uuid": "GPU-2"}, None),
        ("epochcast_gpu_step_seconds", {"uuid": "GPU-2"}, 0.5),
        ("epochcast_gpu_epoch_seconds", {"uuid": "GPU-3"}, None),
        ("epochcast_gpu_cycle_seconds", {"uuid": "GPU-3"}, 12.0),
        ("epochcast_gpu_cycle_idle_ratio", {"uuid": "GPU-3", "cycle": "checkpoint"}, 0.5),
        ("epochcast_gpu_cycle_idle_ratio", {"uuid": "GPU-3", "cycle": "unknown"}, None),
        ("epochcast_gpu_last_epoch_seconds", {"uuid": "GPU-1"}, 10.5),
        ("epochcast_gpu_epochs_total", {"uuid": "GPU-1"}, 7.0),
        ("epochcast_gpu_detector_state", {"uuid": "GPU-1", "state": "answered"}, 1.0),
        ("epochcast_gpu_detector_state", {"uuid": "GPU-1", "state": "idle"}, 0.0),
    ],
)
def test_values(registry: CollectorRegistry, name: str, labels: dict[str, str], value: float | None) -> None:
    assert registry.get_sample_value(name, {**LABELS, **labels}) == value


def test_sources_and_health(registry: CollectorRegistry) -> None:
    source = {"kind": "agent", "source": "http://a"}
    assert registry.get_sample_value("epochcast_analyzer_source_errors_total", source) == 1
    assert registry.get_sample_value("epochcast_analyzer_source_lag_seconds", source) == 2.5
    assert registry.get_sample_value("epochcast_analyzer_source_clock_offset_seconds", source) == -3.5
    assert registry.get_sample_value("epochcast_analyzer_backlog_dropped_samples_total") == 4
    assert registry.get_sample_value("epochcast_analyzer_detection_cpu_seconds_total") == 0.5


def test_of_many_sources_those_in_trouble_are_named_and_the_others_counted() -> None:
    fine = [SourceStatus("node", f"http://n-{n:04d}", True, polls=9, clock_offset_s=0.1) for n in range(1200)]
    down = [SourceStatus("node", f"http://x-{n}", False, "gone", 9, 9) for n in range(12)]
    off = SourceStatus("node", "http://y", True, polls=9, clock_offset_s=-40.0)
    registry = CollectorRegistry()
    registry.register(DetectionMetrics(lambda: ({}, WatcherReport(None, [*fine, *down, off]))))
    (ups,) = (family for family in registry.collect() if family.name == "epochcast_analyzer_source_up")
    named = {sample.labels["source"] for sample in ups.samples}
    assert len(named) == 100
    assert {source.name for source in (*down, off)} <= named
    assert registry.get_sample_value("epochcast_analyzer_sources", {"state": "up"}) == 1201
    assert registry.get_sample_value("epochcast_analyzer_sources", {"state": "down"}) == 12
    assert registry.get_sample_value("epochcast_analyzer_left_out_sources") == 1113


def test_a_view_that_fails_takes_no_page_down(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> NoReturn:
        raise OSError("the disk is gone")

    registry = CollectorRegistry()
    with caplog.at_level(logging.CRITICAL):
        registry.register(DetectionMetrics(fails))
    assert list(registry.collect()) == []
