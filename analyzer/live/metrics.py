"""The metrics that the analyzer exports: those of detectors and telemetry sources, and the table of all (`metrics.toml`).

``python -m epochcast.analyzer.live.metrics`` prints the table."""

from __future__ import annotations

import logging
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Literal, NamedTuple, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport, named_sources
from epochcast.analyzer.telemetry.gpu_report import Report
from epochcast.detector import Unit

log = logging.getLogger(__name__)

GONE_S = 86_400.0
"""A GPU that nobody has reported for so long has no metrics any more: machines that come and go would leave theirs."""

_STATES = ("idle", "searching", "answered")


class DetectionMetrics(Collector):
    """Collects the metrics of metrics.toml that say ``by = "detector"``, and those of sources and watcher."""

    def __init__(self, view: Callable[[], tuple[Mapping[str, Report], WatcherReport]]) -> None:
        """``view`` gives the reports of the GPUs detected here, and how the watcher is; where it fails, nothing is exported."""
        self._view = view

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        try:
            reports, (health, sources) = self._view()
        except Exception:  # the page's other metrics are needed all the more
            log.exception("the detectors' metrics cannot be exported")
            return
        readings = (_of_gpu(report) for report in reports.values())
        yield from families(chain(*readings, _of_sources(sources), () if health is None else _of_health(health)))


Value = tuple[str, Sequence[str], float | None]
"""Name of a metric, values of its labels, and a value in base units; None exports nothing."""


def families(values: Iterable[Value]) -> Iterator[Metric]:
    """Yield the families of these values, made of the table when they get their first one."""
    made: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
    for name, labels, value in values:
        if value is None:
            continue
        if name not in made:
            metric = catalog()[name]
            make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            made[name] = make(name, metric.help, labels=metric.labels)
        made[name].add_metric(list(labels), value)
    yield from made.values()


def _of_gpu(report: Report) -> Iterator[Value]:
    device = report.device
    labels = (device.label, device.uuid, device.name, device.node)
    newest = report.epochs[-1] if report.epochs else None
    for name, value in {
        **{f"{unit}_seconds": report.detection.period_s if report.detection.unit == unit else None for unit in get_args(Unit)},
        "last_epoch_seconds": None if newest is None else newest.seconds,
        "last_epoch_end_timestamp_seconds": None if newest is None else newest.end,
        "epochs_total": report.epochs_seen,
        "epoch_confidence_ratio": report.detection.confidence,
        "job_start_timestamp_seconds": report.job_since,
        "detector_last_sample_timestamp_seconds": report.last_sample,
        "detector_samples_total": report.samples,
        "detector_dropped_samples_total": report.dropped,
    }.items():
        yield f"epochcast_gpu_{name}", labels, value
    for kind, cycle in {cycle.kind: cycle for cycle in report.detection.cycles}.items():  # of two of a kind the longer
        yield "epochcast_gpu_cycle_idle_ratio", (*labels, kind), cycle.idle_share
    for state in _STATES:
        yield "epochcast_gpu_detector_state", (*labels, state), float(state == report.state)


def _of_sources(sources: Sequence[SourceStatus]) -> Iterator[Value]:
    """Those that are named, and how many there are: a large fleet has one for each node."""
    named = named_sources(sources)
    for source in sorted(named, key=lambda each: (each.kind, each.name)):
        yield from _of_source(source)
    up = sum(source.up for source in sources)
    yield "epochcast_analyzer_sources", ("up",), up
    yield "epochcast_analyzer_sources", ("down",), len(sources) - up
    yield "epochcast_analyzer_left_out_sources", (), len(sources) - len(named)


def _of_source(source: SourceStatus) -> Iterator[Value]:
    labels = (source.kind, source.name)
    yield "epochcast_analyzer_source_up", labels, source.up
    yield "epochcast_analyzer_source_polls_total", labels, source.polls
    yield "epochcast_analyzer_source_errors_total", labels, source.errors
    yield "epochcast_analyzer_source_lag_seconds", labels, source.lag_s
    yield "epochcast_analyzer_source_clock_offset_seconds", labels, source.clock_offset_s


def _of_health(health: WatcherHealth) -> Iterator[Value]:
    yield "epochcast_analyzer_backlog_samples", (), health.backlog
    yield "epochcast_analyzer_backlog_dropped_samples_total", (), health.dropped
    yield "epochcast_analyzer_detection_cpu_seconds_total", (), health.cpu_s
    yield "epochcast_analyzer_store_errors_total", (), health.store_errors
    yield "epochcast_analyzer_watched_gpus", (), health.gpus


class CatalogRow(NamedTuple):
    """One metric.

    ``name``: as on ``/metrics``. ``by``: ``detector`` is the process that detects the GPU's epochs: its node's analyzer, else
    the service.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    by: Literal["detector", "service", "both"]
    help: str


@cache
def catalog() -> dict[str, CatalogRow]:
    """Return the metrics by name, in the order of the table."""
    table = tomllib.loads(files(__package__).joinpath("metrics.toml").read_text(encoding="utf-8"))
    return {
        name: CatalogRow(name, group.get("kind") or _kind(name), tuple(group["labels"]), group["by"], text)
        for group in table["group"]
        for name, text in group["metrics"].items()
    }


def _kind(name: str) -> Literal["gauge", "counter"]:
    return "counter" if name.endswith("_total") else "gauge"


def markdown() -> str:
    """Return the table of all, as text."""
    lines = [("metric", "kind", "labels", "exported by", "what it is"), ("---",) * 5]
    lines += [(f"`{m.name}`", m.kind, ", ".join(m.labels), m.by, m.help) for m in catalog().values()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(markdown())
