"""``/metrics``: collectors that read the stores and keep nothing, and the page that is made of them once per newest sample."""

import gzip
import math
import platform
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.metadata import version
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from epochcast.agent.catalog import PARTS, Metric, Part
from epochcast.agent.compat import DcgmExporterCollector
from epochcast.agent.config import COMPATIBLE, Config
from epochcast.agent.node import Node
from epochcast.agent.sampler import Histogram, Sampler
from epochcast.agent.store import Summary
from epochcast.agent.ticks_first import ticks_first

# Without news a page is repeated this long (seconds): a device that falls silent must leave it.
LONGEST_LIFE_S = 0.5
# Level 1 makes a page a seventh as large; level 9 takes ten times as long to make it a sixth smaller still.
GZIP_LEVEL = 1
LABELS = ("gpu", "uuid", "name")
# Static attributes that join a GPU with logs of the kernel, inventories and driver updates.
FACTS = ("driver_version", "pci_bus_id", "serial")
VERSIONS = {"version": version("epochcast"), "python": platform.python_version()}
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

    def collect(self) -> Iterator[Family]:
        """Yield the families; each device's lines are of one moment."""
        node = self._node
        stores, choices, sources = node.stores, node.choices, node.sources
        now = node.clock.monotonic()
        info = InfoMetricFamily("epochcast_gpu", "What the device is, and whether its samples are simulated.", labels=LABELS)
        up = GaugeMetricFamily(
            "epochcast_gpu_up", "1 while samples of the GPU arrive, 0 while it is silent or gone.", labels=LABELS
        )
        missed = CounterMetricFamily("epochcast_gpu_missed_ticks", "Ticks that left no sample of the device.", labels=LABELS)
        xids = CounterMetricFamily(
            "epochcast_gpu_xid_errors",
            "Xid errors that the driver reported since the agent started; none before the first.",
            labels=(*LABELS, "xid"),
        )
        present: list[tuple[tuple[str, str, str], Summary]] = []
        for store in stores:
            device = store.device
            labels = (device.label, device.uuid, device.name)
            source = sources.get(device.uuid)
            summary = None if source is None else store.summary(now - source.silent_after)
            if summary is not None:
                present.append((labels, summary))
            static = node.static(device.uuid)
            facts = {name: str(static[name].value) if name in static else "" for name in FACTS}
            info.add_metric(labels, {"source": device.source, "simulated": str(device.simulated).lower(), **facts})
            if device.source != "host":
                up.add_metric(labels, summary is not None)
            missed.add_metric(labels, store.missed_ticks)
            for code, count in sorted(store.xids.copy().items()):
                xids.add_metric((*labels, str(code)), count)
        fallback = GaugeMetricFamily(
            "epochcast_gpu_source_fallback",
            "1 while the device is not read from its best source; /api/v1/gpus says why.",
            labels=(*LABELS, "source"),
        )
        for choice in choices:
            if choice.source != "host":  # else there is no GPU
                fallback.add_metric([choice.label, choice.uuid, choice.name, choice.source], choice.fallback)
        yield from (info, up, missed, xids, fallback)
        for metric, name in unique_names([metric for store in stores for metric in store.device.metrics]):
            for part in self._config.shown(metric):
                family = self._family(metric, family_name(name, part), part)
                for labels, summary in present:
                    value = summary[part].get(metric.name, math.nan)
                    if not math.isnan(value):
                        family.add_metric(labels, value)
                yield family

    def _family(self, metric: Metric, name: str, part: Part) -> CounterMetricFamily | GaugeMetricFamily:
        text = metric.help
        if part == "seconds":
            text = f"Integral over time; its rate() is the exact mean: {text}"
        elif part != "last":
            text = f"{STATISTICS[part]} over the last {self._config.window:g} s window: {text}"
        counts = part == "seconds" or metric.kind == "counter"
        return (CounterMetricFamily if counts else GaugeMetricFamily)(name, text, labels=LABELS)


def unique_names(metrics: Iterable[Metric]) -> list[tuple[Metric, str]]:
    """Return each metric with its legal name on ``/metrics``, such that no two families share a name.

    A metric of the catalogue keeps its documented name, regardless of the other columns of a replayed trace.
    """
    names = []
    taken = set(RESERVED)
    by_name = {metric.name: metric for metric in metrics}
    for metric in sorted(by_name.values(), key=lambda metric: metric.unit == ""):
        base = re.sub(r"[^A-Za-z0-9_]", "_", metric.prometheus)
        name, copies = base, 1
        while taken & _families(name):
            copies += 1
            name = f"{base}_{copies}"
        taken |= _families(name)
        names.append((metric, name))
    return names


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
    bounds = ["+Inf" if math.isinf(bound) else repr(bound) for bound in histogram.BOUNDS]
    return list(zip(bounds, map(float, accumulate(list(histogram.counts))), strict=True)), histogram.sum


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
        yield InfoMetricFamily("epochcast_agent_build", "Version of the agent and of the Python that runs it.", VERSIONS)
        yield from (family for family, _ in families)
        yield from (blanks, implausible)


class MetricsPage:
    """The newest page in each requested form. Nothing is kept per scraper."""

    def __init__(self, node: Node, registry: CollectorRegistry) -> None:
        self._node = node
        self._registry = registry
        self._pages: dict[tuple[str, bool], bytes] = {}
        self._of: object = None
        self._since = -math.inf
        self._lock = threading.Lock()

    def render(self, accept: str, zipped: bool, names: Collection[str] = ()) -> tuple[bytes, str]:
        """Return the page and its type, OpenMetrics or Prometheus' own text, for a client with this Accept header.

        ``names`` (of samples, as in ``?name[]=``) leaves out all others.
        """
        encode, kind = choose_encoder(accept)
        if names:
            return self._fresh(encode, zipped, frozenset(names)), kind
        samplers = self._node.samplers
        of = (samplers, [sampler.last_sample_time for sampler in samplers])
        # Scrapers that come at the same time wait for the first one's page instead of each making it.
        with self._lock:
            now = self._node.clock.monotonic()
            if of != self._of or now - self._since > LONGEST_LIFE_S:
                self._pages, self._of, self._since = {}, of, now
            if (kind, zipped) not in self._pages:
                self._pages[kind, zipped] = self._fresh(encode, zipped, None)
            return self._pages[kind, zipped], kind

    def _fresh(self, encode: Callable[[Any], bytes], zipped: bool, names: Collection[str] | None) -> bytes:
        # Not the registry's own restriction to names: that wants them at a start, and ours change with the devices.
        page = encode(SimpleNamespace(collect=lambda: ticks_first.between(self._families(names))))
        return gzip.compress(page, GZIP_LEVEL) if zipped else page

    def _families(self, names: Collection[str] | None) -> Iterator[Family]:
        for family in self._registry.collect():
            if names is not None:
                family.samples = [sample for sample in family.samples if sample.name in names]
            if names is None or family.samples:
                yield family
