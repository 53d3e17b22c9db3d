"""``/metrics``: a collector that reads the stores at each scrape and keeps nothing between scrapes."""

import math
import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.registry import Collector

from .catalog import Metric
from .sampler import Histogram, Sampler
from .windows import Summary

LABELS = ("gpu", "uuid", "name")

Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)


def registry(sampler: Sampler, window: float) -> CollectorRegistry:
    """Return the registry of everything that the agent exports; ``window`` (seconds) goes into the help texts."""
    everything = CollectorRegistry()
    everything.register(DeviceCollector(sampler, window))
    everything.register(AgentCollector(sampler))
    # CPU seconds and memory of the agent itself: its own cost is measured where the GPUs are.
    ProcessCollector(registry=everything)
    return everything


class DeviceCollector(Collector):
    """Families of all metrics of all devices that are not silent. What has no value now has no line."""

    def __init__(self, sampler: Sampler, window: float) -> None:
        self._sampler = sampler
        self._window = f"{window:g} s window"
        self._names = _unique_names([metric for store in sampler.stores for metric in store.device.metrics])

    def collect(self) -> Iterator[InfoMetricFamily | GaugeMetricFamily | CounterMetricFamily]:
        """Yield the families; each device's lines are of one moment."""
        info = InfoMetricFamily("epochcast_gpu", "What the device is, and whether its samples are simulated.", labels=LABELS)
        missed = CounterMetricFamily("epochcast_gpu_missed_ticks", "Ticks that left no sample of the device.", labels=LABELS)
        present: list[_Present] = []
        heard_since = self._sampler.clock.monotonic() - self._sampler.source.silent_after
        for store in self._sampler.stores:
            device = store.device
            labels = [str(device.index), device.uuid, device.name]
            info.add_metric(labels, {"source": self._sampler.source.name, "simulated": str(device.simulated).lower()})
            missed.add_metric(labels, store.missed_ticks)
            summary = store.summary(heard_since)
            if summary is not None:
                present.append(_Present(labels, {metric.name: i for i, metric in enumerate(device.metrics)}, summary))
        yield info
        yield missed
        for metric, name in self._names.values():
            if metric.kind == "counter":
                yield _filled(CounterMetricFamily(name, metric.help, labels=LABELS), present, metric, "last")
                continue
            yield _filled(GaugeMetricFamily(name, metric.help, labels=LABELS), present, metric, "last")
            for suffix, word, field in (("avg", "Mean", "mean"), ("min", "Minimum", "low"), ("max", "Maximum", "high")):
                text = f"{word} over the last {self._window}: {metric.help}"
                yield _filled(GaugeMetricFamily(f"{name}_{suffix}", text, labels=LABELS), present, metric, field)
            if metric.unit == "ratio":
                text = f"Integral over time, whose rate() is the exact mean: {metric.help}"
                name = f"{name.removesuffix('_ratio')}_seconds"
                yield _filled(CounterMetricFamily(name, text, labels=LABELS), present, metric, "integral")


class _Present(NamedTuple):
    """A device that is not silent: its label values, the position of each of its metrics, and its summary."""

    labels: list[str]
    positions: dict[str, int]
    summary: Summary


def _filled(family: Family, present: Iterable[_Present], metric: Metric, field: str) -> Family:
    """Add one line per device that has a value of ``metric`` in that field of its summary."""
    for labels, positions, summary in present:
        if metric.name in positions:
            value = float(getattr(summary, field)[positions[metric.name]])
            if not math.isnan(value):
                family.add_metric(labels, value)
    return family


def _unique_names(metrics: Iterable[Metric]) -> dict[str, tuple[Metric, str]]:
    """Return (metric, legal name on ``/metrics``) by metric name, so that no two families share a name.

    A metric of the catalogue keeps its documented name, whatever a replayed trace calls its other columns.
    """
    names: dict[str, tuple[Metric, str]] = {}
    taken = {"epochcast_gpu_info", "epochcast_gpu_missed_ticks_total"}
    for metric in sorted(metrics, key=lambda metric: metric.unit == ""):
        if metric.name in names:
            continue
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in metric.prometheus)
        name, copies = base, 1
        while taken & _families(name):
            copies += 1
            name = f"{base}_{copies}"
        taken |= _families(name)
        names[metric.name] = (metric, name)
    return names


def _families(name: str) -> set[str]:
    """Return every name that the families of a metric called ``name`` may take on the page."""
    return {f"{name}{suffix}" for suffix in ("", "_total", "_avg", "_min", "_max")} | {
        f"{name.removesuffix('_ratio')}_seconds_total"
    }


class AgentCollector(Collector):
    """Families about the sampler itself."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def collect(self) -> Iterator[InfoMetricFamily | GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily]:
        """Yield the families."""
        sampler = self._sampler
        yield InfoMetricFamily(
            "epochcast_agent_build",
            "Version of the agent and of the Python that runs it.",
            {"version": version("epochcast"), "python": platform.python_version()},
        )
        yield GaugeMetricFamily(
            "epochcast_agent_effective_hertz", "Ticks per second over the last hundred ticks.", sampler.effective_hertz
        )
        yield _histogram("epochcast_agent_tick_seconds", "Time that a tick's readings took.", sampler.tick_seconds)
        yield _histogram(
            "epochcast_agent_tick_lateness_seconds", "Time between a tick's deadline and its start.", sampler.lateness_seconds
        )
        yield CounterMetricFamily("epochcast_agent_missed_ticks", "Ticks that were skipped.", sampler.missed_ticks)
        yield CounterMetricFamily("epochcast_agent_clock_steps", "Times the wall clock was set.", sampler.clock_steps)
        errors = CounterMetricFamily(
            "epochcast_agent_read_errors", "Ticks at which the source as a whole failed.", labels=("source",)
        )
        errors.add_metric([sampler.source.name], sampler.read_errors)
        yield errors
        newest = GaugeMetricFamily(
            "epochcast_agent_last_sample_timestamp_seconds", "Unix time of the newest sample.", labels=()
        )
        if sampler.last_sample_time is not None:
            newest.add_metric([], sampler.last_sample_time)
        yield newest


def _histogram(name: str, help_text: str, histogram: Histogram) -> HistogramMetricFamily:
    total = 0
    buckets = []
    for bound, count in zip(histogram.BOUNDS, list(histogram.counts), strict=True):
        total += count
        buckets.append(("+Inf" if math.isinf(bound) else repr(bound), total))
    return HistogramMetricFamily(name, help_text, buckets, histogram.sum)
