"""Metrics of detectors and telemetry sources, for whoever runs the watcher: a node's analyzer, or the service for its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...detector import Unit
from ..telemetry.gpu_report import Report
from .health import SourceStatus, WatcherHealth
from .metric_catalog import catalog

log = logging.getLogger(__name__)

GONE_S = 86_400.0
"""A GPU that nobody has told of for so long has no metrics any more: machines that come and go would leave theirs."""

_STATES = ("idle", "searching", "answered")


class View(NamedTuple):
    """What there is to tell.

    Attributes:
        reports: of the GPUs whose epochs are detected here.
        sources: how the telemetry sources are.
        health: how the watcher is; None before it ever told.
    """

    reports: Mapping[str, Report]
    sources: Iterable[SourceStatus]
    health: WatcherHealth | None


class DetectionMetrics(Collector):
    """Collects the metrics of metrics.toml that say ``by = "detector"``, and those of sources and watcher."""

    def __init__(self, view: Callable[[], View]) -> None:
        """``view`` is asked at each scrape; where it fails, that is logged and nothing is told."""
        self._view = view

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        try:
            view = self._view()
        except Exception:  # the page's other metrics are wanted all the more
            log.exception("the detectors' metrics cannot be exported")
            return
        families = _Families()
        for report in view.reports.values():
            _tell_gpu(families, report)
        for source in view.sources:
            _tell_source(families, source)
        if view.health is not None:
            _tell_health(families, view.health)
        yield from families.all.values()


class _Families:
    """Metric families by name, made of the table when they get their first value."""

    def __init__(self) -> None:
        self.all: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}

    def add(self, name: str, labels: Iterable[str], value: float | None) -> None:
        """Add a value, in base units; None is nothing to tell."""
        if value is None:
            return
        if name not in self.all:
            metric = catalog()[name]
            make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            self.all[name] = make(name, metric.help, labels=metric.labels)
        self.all[name].add_metric(list(labels), value)


def _tell_gpu(families: _Families, report: Report) -> None:
    device = report.device
    labels = (device.label, device.uuid, device.name, device.node)
    newest = report.epochs[-1] if report.epochs else None
    for name, value in {
        **{f"{unit}_seconds": report.period_s if report.unit == unit else None for unit in get_args(Unit)},
        "last_epoch_seconds": None if newest is None else newest.seconds,
        "last_epoch_end_timestamp_seconds": None if newest is None else newest.end,
        "epochs_total": report.epochs_seen,
        "epoch_confidence_ratio": report.confidence,
        "job_start_timestamp_seconds": report.job_since,
        "detector_last_sample_timestamp_seconds": report.last_sample,
        "detector_samples_total": report.samples,
        "detector_dropped_samples_total": report.dropped,
    }.items():
        families.add(f"epochcast_gpu_{name}", labels, value)
    for kind, cycle in {cycle.kind: cycle for cycle in report.cycles}.items():  # of two of a kind the longer
        families.add("epochcast_gpu_cycle_idle_ratio", (*labels, kind), cycle.idle_share)
    for state in _STATES:
        families.add("epochcast_gpu_detector_state", (*labels, state), float(state == report.state))


def _tell_source(families: _Families, source: SourceStatus) -> None:
    for name, value in {
        "up": source.up,
        "polls_total": source.polls,
        "errors_total": source.errors,
        "lag_seconds": source.lag_s,
    }.items():
        families.add(f"epochcast_analyzer_source_{name}", (source.kind, source.name), value)


def _tell_health(families: _Families, health: WatcherHealth) -> None:
    for name, value in {
        "backlog_samples": health.backlog,
        "backlog_dropped_samples_total": health.dropped,
        "detection_cpu_seconds_total": health.cpu_s,
        "store_errors_total": health.store_errors,
        "watched_gpus": health.gpus,
    }.items():
        families.add(f"epochcast_analyzer_{name}", (), value)
