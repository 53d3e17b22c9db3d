"""``compat``: the names, labels and units of dcgm-exporter, up to 4.8 or of 4.9, for dashboards and alerts that expect them.

Its default list (``etc/default-counters.csv``) and what it has commented out there, as far as the active source gives it:
`epochcast.dcgm_names` has the names of both generations with their units. Only the help texts are ours.
"""

import math
import socket
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from epochcast.agent.catalog import catalog
from epochcast.agent.node import Node
from epochcast.agent.sources import Device
from epochcast.agent.sources.dcgm_values import INSTANCE_FIELDS
from epochcast.dcgm_names import LAST_XID, NAMES, NEWEST, OLDEST

Values = Mapping[str, float]


class Generation(NamedTuple):
    """What the exporter's versions differ in.

    ``names``: column -> name. ``nvlink``: name of the traffic of all NVLinks, both ways, and bytes/s per unit of it.
    ``capacity``: name of the whole memory. ``host``, ``driver``: names of labels.
    """

    names: Mapping[str, str]
    nvlink: tuple[str, float]
    capacity: str | None
    host: str
    driver: str


GENERATIONS = {
    # DCGM divides KiB/s by a thousand and calls it MB/s. From 4.8.3 on the label of the host is in small letters too.
    "4.8": Generation(OLDEST, ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 1024e3), None, "Hostname", "DCGM_FI_DRIVER_VERSION"),
    "4.9": Generation(
        NEWEST,
        ("DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", 1.0),  # unconfirmed, as some of `NEWEST`
        "DCGM_FI_DEV_FB_CAPACITY_BYTES",
        "hostname",
        "DCGM_FI_SYSTEM_DRIVER_VERSION",
    ),
}
UNITS = {("Hz", 1e6): "MHz", ("J", 1e-3): "mJ", ("ratio", 1e-2): "percent", ("bytes", 2**20): "MiB"}
# Where the driver has no averaged power (GA100 and older), DCGM's field for it is the instant one.
AVERAGE, INSTANT = "power_average", "power"


class DcgmExporterCollector(Collector):
    """``DCGM_FI_*`` families: the last value of each device that is not silent.

    As there, a GPU with MIG instances is not listed next to them: each has what is measured of the whole card, its power too.
    """

    def __init__(self, node: Node, generation: str) -> None:
        self._node = node
        self._host = socket.gethostname()
        self._generation = GENERATIONS[generation]

    def collect(self) -> Iterator[Family]:
        """Yield the families that have a value."""
        names, (nvlink, nvlink_unit), capacity, *_ = self._generation
        families = {name: _family(column, name) for column, name in names.items()}
        families[nvlink] = Family(nvlink, "Data sent and received over all NVLinks per second.", "gauge")
        if capacity is not None:
            families[capacity] = Family(capacity, "Device memory. Unit: bytes.", "gauge")
        for device, labels, values in self._devices():
            for column, name in names.items():
                value = values.get(column, math.nan)
                if column == AVERAGE and math.isnan(value):
                    value = values.get(INSTANT, math.nan)
                if not math.isnan(value):
                    families[name].add_sample(name, labels, value / NAMES[name][1])
            both = values.get("nvlink_tx", math.nan) + values.get("nvlink_rx", math.nan)
            if not math.isnan(both):
                families[nvlink].add_sample(nvlink, labels, both / nvlink_unit)
            total = self._node.static(device.uuid).get("memory_total")
            if capacity is not None and total is not None:
                families[capacity].add_sample(capacity, labels, float(total.value))
        yield from (family for family in families.values() if family.samples)

    def _devices(self) -> Iterator[tuple[Device, dict[str, str], Values]]:
        """Yield the devices to be listed, with their labels and the last values of their metrics."""
        now = self._node.clock.monotonic()
        listed: list[tuple[Device, Values]] = []
        for sampler in self._node.samplers:
            for store in sampler.stores:
                summary = store.summary(now - sampler.source.silent_after)
                if summary is not None and store.device.metrics and store.device.metrics[0].scope == "gpu":
                    newest = summary["last"]
                    if store.device.instance is None:
                        newest[LAST_XID] = float(store.last_xid)
                    listed.append((store.device, newest))
        whole = {device.index: values for device, values in listed if device.instance is None}
        parents = {store.device.index: store.device for store in self._node.stores if store.device.instance is None}
        partitioned = {device.index for device, _ in listed if device.instance is not None}
        own = {name for name, metric in catalog().items() if metric.dcgm in INSTANCE_FIELDS}
        for device, values in listed:
            if device.instance is not None:
                of_card = whole.get(device.index, {})
                values = {**{name: value for name, value in of_card.items() if name not in own}, **values}
            elif device.index in partitioned:
                continue
            yield device, self._labels(device, parents.get(device.index, device)), values

    def _labels(self, device: Device, parent: Device) -> dict[str, str]:
        labels = {"gpu": str(device.index), "UUID": parent.uuid, "device": f"nvidia{device.index}"}
        labels |= {self._generation.host: self._host, "modelName": parent.name}
        static = self._node.static(parent.uuid)
        for name, attribute in (("pci_bus_id", "pci_bus_id"), (self._generation.driver, "driver_version")):
            if attribute in static:
                labels[name] = str(static[attribute].value)
        if device.instance is not None:
            labels["GPU_I_ID"] = str(device.instance)
            # NVML names an instance "<GPU> MIG <profile>", and so do the other sources where they know the profile.
            if profile := device.name.partition(" MIG ")[2]:
                labels["GPU_I_PROFILE"] = profile
        return labels


def _family(column: str, name: str) -> Family:
    if column == LAST_XID:
        text = "Code of the last Xid error since the agent opened the GPU; 0 if there was none. Unit: none."
        return Family(name, text, "gauge")
    metric = catalog()[column]
    text = f"{metric.help} Unit: {UNITS.get((metric.unit, NAMES[name][1]), metric.unit) or 'none'}."
    # Their counter has no _total, which a counter of OpenMetrics must have: its type is left open.
    return Family(name, text, "unknown" if metric.kind == "counter" else "gauge")
