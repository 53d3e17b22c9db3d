"""The content of ``/metrics``: collectors that read the stores for each page and keep nothing between pages."""

import math
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from epochcast.agent.catalog import PARTS, Metric, Part
from epochcast.agent.compat import DcgmExporterCollector
from epochcast.agent.config import COMPATIBLE, Config
from epochcast.agent.node import Node
from epochcast.agent.sampler import Histogram, Sampler
from epochcast.agent.sources import Device

LABELS = ("gpu", "uuid", "name")
# Static attributes that join a GPU with logs of the kernel, inventories and driver updates.
FACTS = ("driver_version", "pci_bus_id", "serial")
STATISTICS = {"avg": "Mean", "min": "Minimum", "max": "Maximum"}
# Families that are not of one metric: no column of a replayed trace may take their names.
RESERVED = frozenset(
    f"epochcast_gpu_{name}"
    for name in (
        "info",
        "up",
        "missed_ticks_total",
        "xid_errors",
        "xid_errors_total",
        "source_fallback",
        "process_memory_bytes",
        "process_sm_utilization_ratio",
    )
)


def registry(node: Node, config: Config) -> CollectorRegistry:
    """Return the registry of all that the agent exports of its devices and itself."""
    everything = CollectorRegistry()
    everything.register(DeviceCollector(node, config))
    if config.compat:
        everything.register(DcgmExporterCollector(node, COMPATIBLE[config.compat]))
    everything.register(AgentCollector(node))
    # CPU seconds and memory of the agent itself: its own cost is measured where the GPUs are.
    ProcessCollector(registry=everything)
    return everything


class DeviceCollector(Collector):
    """Families of all metrics of all devices. What has no value now has no line; nor has a device that is silent."""

    def __init__(self, node: Node, config: Config) -> None:
        self._node = node
        self._config = config
        self._plan = _Plan((), ())

    def collect(self) -> Iterator[Family]:
        """Yield the families; each device's lines are of one moment."""
        node = self._node
        stores, choices = node.stores, node.choices
        plan = self._plan_for([store.device for store in stores])
        sources = node.sources
        now = node.clock.monotonic()
        info = InfoMetricFamily("epochcast_gpu", "What the device is, and whether its samples are simulated.")
        up = GaugeMetricFamily("epochcast_gpu_up", "1 while samples of the GPU arrive, 0 while it is silent or gone.")
        missed = CounterMetricFamily("epochcast_gpu_missed_ticks", "Ticks that left no sample of the device.")
        xids = CounterMetricFamily(
            "epochcast_gpu_xid_errors", "Xid errors that the driver reported since the agent started; none before the first."
        )
        present: list[_Present] = []
        for store, labels in zip(stores, plan.labels, strict=True):
            device = store.device
            source = sources.get(device.uuid)
            summary = None if source is None else store.summary(now - source.silent_after)
            if summary is not None:
                positions = {metric.name: position for position, metric in enumerate(device.metrics)}
                present.append(_Present(labels, positions, {name: vector.tolist() for name, vector in vars(summary).items()}))
            static = node.static(device.uuid)
            facts = {name: str(static[name].value) if name in static else "" for name in FACTS}
            simulated = str(device.simulated).lower()
            info.add_sample("epochcast_gpu_info", {**labels, "source": device.source, "simulated": simulated, **facts}, 1.0)
            if device.source != "host":
                up.add_sample(up.name, labels, float(summary is not None))
            missed.add_sample("epochcast_gpu_missed_ticks_total", labels, store.missed_ticks)
            for code, count in sorted(store.xids.copy().items()):
                xids.add_sample("epochcast_gpu_xid_errors_total", {**labels, "xid": str(code)}, count)
        fallback = GaugeMetricFamily(
            "epochcast_gpu_source_fallback",
            "1 while the device is not read from its best source; /api/v1/gpus says why.",
            labels=(*LABELS, "source"),
        )
        for choice in choices:
            if choice.source == "host":  # there is no GPU
                continue
            fallback.add_metric([choice.label, choice.uuid, choice.name, choice.source], float(choice.fallback))
        yield from (info, up, missed, xids, fallback)
        for metric, name in plan.names:
            yield from self._metric_families(metric, name, present)

    def _plan_for(self, devices: list[Device]) -> "_Plan":
        """Return the names and label sets of these devices, which change only when the sources are reopened."""
        plan = self._plan
        if len(plan.devices) != len(devices) or any(a is not b for a, b in zip(plan.devices, devices, strict=True)):
            plan = self._plan = _Plan(devices, unique_names([metric for device in devices for metric in device.metrics]))
        return plan

    def _metric_families(self, metric: Metric, name: str, present: list["_Present"]) -> Iterator[Family]:
        for part in self._config.shown(metric):
            own = family_name(name, part)
            if metric.kind == "counter":
                yield _filled(CounterMetricFamily(own, metric.help), f"{own}_total", present, metric, part)
            elif part == "last":
                yield _filled(GaugeMetricFamily(own, metric.help), own, present, metric, part)
            elif part == "seconds":
                text = f"Integral over time; its rate() is the exact mean: {metric.help}"
                yield _filled(CounterMetricFamily(own, text), f"{own}_total", present, metric, part)
            else:
                text = f"{STATISTICS[part]} over the last {self._config.window:g} s window: {metric.help}"
                yield _filled(GaugeMetricFamily(own, text), own, present, metric, part)


class _Plan:
    """What stays the same from page to page: ``labels`` of each device (one object each), ``names`` of the metrics."""

    def __init__(self, devices: Iterable[Device], names: Iterable[tuple[Metric, str]]) -> None:
        self.devices = tuple(devices)
        self.labels = [dict(zip(LABELS, (device.label, device.uuid, device.name), strict=True)) for device in self.devices]
        self.names = tuple(names)


class _Present(NamedTuple):
    """A device that is not silent: its labels, the position of each of its metrics, and its `Summary` as lists."""

    labels: dict[str, str]
    positions: dict[str, int]
    summary: Mapping[str, list[float]]


def _filled(family: Family, sample_name: str, present: Iterable[_Present], metric: Metric, part: Part) -> Family:
    """Add one line per device that has a value of ``metric`` in that part of its summary."""
    for labels, positions, summary in present:
        position = positions.get(metric.name)
        if position is not None:
            value = summary[part][position]
            if not math.isnan(value):
                # Not add_metric: that makes a label set of its own for each line.
                family.add_sample(sample_name, labels, value)
    return family


def unique_names(metrics: Iterable[Metric]) -> list[tuple[Metric, str]]:
    """Return each metric with its legal name on ``/metrics``, such that no two families share a name.

    A metric of the catalogue keeps its documented name, regardless of the other columns of a replayed trace.
    """
    names: dict[str, tuple[Metric, str]] = {}
    taken = set(RESERVED)
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
    return list(names.values())


def family_name(name: str, part: Part) -> str:
    """Return the name of a family of the metric called ``name``, without the ``_total`` of counters."""
    if part == "seconds":
        return f"{name.removesuffix('_ratio')}_seconds"
    return name if part == "last" else f"{name}_{part}"


def _families(name: str) -> set[str]:
    """Return every name that the families of a metric called ``name`` may take on the page."""
    names = {family_name(name, part) for part in PARTS}
    return names | {f"{each}_total" for each in names}


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Return cumulative counts by upper bound, and the sum of the durations (seconds)."""
    total = 0
    buckets = []
    for bound, count in zip(histogram.BOUNDS, list(histogram.counts), strict=True):
        total += count
        buckets.append(("+Inf" if math.isinf(bound) else repr(bound), float(total)))
    return buckets, histogram.sum


# What is exported of each sampler: kind and name of the family, help, and what `add_metric` takes (None: no line).
FIGURES: tuple[tuple[type[Any], str, str, Callable[[Sampler], tuple[Any, ...]]], ...] = (
    (GaugeMetricFamily, "effective_hertz", "Ticks per second over the last hundred ticks.", lambda of: (of.effective_hertz,)),
    (GaugeMetricFamily, "target_hertz", "Ticks per second that the governor allows now.", lambda of: (of.target_hertz,)),
    (HistogramMetricFamily, "tick_seconds", "Wall time of a tick's readings.", lambda of: _buckets(of.tick_seconds)),
    (
        HistogramMetricFamily,
        "tick_lateness_seconds",
        "Delay between a tick's due time and its start; with GPM, up to 0.05 s of it is the pause that GPUs need.",
        lambda of: _buckets(of.lateness_seconds),
    ),
    (CounterMetricFamily, "missed_ticks", "Ticks skipped because they were too late.", lambda of: (of.missed_ticks,)),
    (
        CounterMetricFamily,
        "governed_ticks",
        "Ticks skipped by the governor because ticks took too much CPU time.",
        lambda of: (of.governed_ticks,),
    ),
    (CounterMetricFamily, "clock_steps", "Times the wall clock was set.", lambda of: (of.clock_steps,)),
    (CounterMetricFamily, "read_errors", "Ticks at which the whole source failed.", lambda of: (of.read_errors,)),
    (
        GaugeMetricFamily,
        "last_sample_timestamp_seconds",
        "Unix time of the newest sample.",
        lambda of: (of.last_sample_time,),
    ),
)


class AgentCollector(Collector):
    """Families about the samplers, each labelled with its source."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Family]:
        """Yield the families."""
        expected = GaugeMetricFamily(
            "epochcast_gpus_expected",
            "GPUs that this machine should have: by the settings, else by the PCI bus or the driver's own count.",
        )
        present = GaugeMetricFamily("epochcast_gpus_present", "GPUs that give samples.")
        if self._node.expected is not None:
            expected.add_metric((), self._node.expected)
            present.add_metric((), self._node.present)
        failing = GaugeMetricFamily(
            "epochcast_gpus_driver_failure", "1 while NVIDIA's driver does not answer.", labels=("code", "reason")
        )
        if failure := self._node.driver_failure:
            failing.add_metric(failure, 1.0)
        yield from (expected, present, failing)
        families = [(kind(f"epochcast_agent_{name}", text, labels=("source",)), of) for kind, name, text, of in FIGURES]
        blanks = CounterMetricFamily(
            "epochcast_agent_blanks",
            "Readings that were due but gave no value; absent until the first.",
            labels=("gpu", "uuid", "metric"),
        )
        implausible = CounterMetricFamily(
            "epochcast_agent_implausible_values",
            "Values left out because they cannot be true; absent until the first.",
            labels=("gpu", "uuid", "metric"),
        )
        for sampler in self._node.samplers:
            for family, of in families:
                if None not in (values := of(sampler)):
                    family.add_metric([sampler.source.name], *values)
            # A copy in one go: the sampler counts on meanwhile.
            now = dict(sampler.source.blanks)
            for position, store in enumerate(sampler.stores):
                for metric in store.device.metrics:
                    if count := store.blanks[metric.name] + now.get((position, metric.name), 0):
                        blanks.add_metric([store.device.label, store.device.uuid, metric.name], count)
                for name, count in store.implausible.copy().items():
                    implausible.add_metric([store.device.label, store.device.uuid, name], count)
        yield InfoMetricFamily(
            "epochcast_agent_build",
            "Version of the agent and of the Python that runs it.",
            {"version": version("epochcast"), "python": platform.python_version()},
        )
        yield from (family for family, _ in families)
        yield from (blanks, implausible)
