"""``compat = "dcgm-exporter"``: the names, labels and units of dcgm-exporter, for dashboards and alerts that expect them.

What it exports by default (its ``etc/default-counters.csv``), and the profiling metrics that it has commented out there, as far
as the active source gives them. Only the help texts are ours.
"""

import math
import socket
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from .catalog import catalog
from .node import Node
from .sources import Device


class Field(NamedTuple):
    """A field under dcgm-exporter's name, in its ``unit``: our base unit times ``factor``."""

    name: str
    unit: str
    factor: float


MIB = 1 / 2**20

# By DCGM field id.
FIELDS = {
    100: Field("DCGM_FI_DEV_SM_CLOCK", "MHz", 1e-6),
    101: Field("DCGM_FI_DEV_MEM_CLOCK", "MHz", 1e-6),
    150: Field("DCGM_FI_DEV_GPU_TEMP", "degrees Celsius", 1),
    155: Field("DCGM_FI_DEV_POWER_USAGE", "W", 1),
    156: Field("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "mJ", 1e3),
    203: Field("DCGM_FI_DEV_GPU_UTIL", "percent", 100),
    204: Field("DCGM_FI_DEV_MEM_COPY_UTIL", "percent", 100),
    251: Field("DCGM_FI_DEV_FB_FREE", "MiB", MIB),
    252: Field("DCGM_FI_DEV_FB_USED", "MiB", MIB),
    1001: Field("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "ratio", 1),
    1002: Field("DCGM_FI_PROF_SM_ACTIVE", "ratio", 1),
    1003: Field("DCGM_FI_PROF_SM_OCCUPANCY", "ratio", 1),
    1004: Field("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "ratio", 1),
    1005: Field("DCGM_FI_PROF_DRAM_ACTIVE", "ratio", 1),
    1006: Field("DCGM_FI_PROF_PIPE_FP64_ACTIVE", "ratio", 1),
    1007: Field("DCGM_FI_PROF_PIPE_FP32_ACTIVE", "ratio", 1),
    1008: Field("DCGM_FI_PROF_PIPE_FP16_ACTIVE", "ratio", 1),
    1009: Field("DCGM_FI_PROF_PCIE_TX_BYTES", "bytes per second", 1),
    1010: Field("DCGM_FI_PROF_PCIE_RX_BYTES", "bytes per second", 1),
    1011: Field("DCGM_FI_PROF_NVLINK_TX_BYTES", "bytes per second", 1),
    1012: Field("DCGM_FI_PROF_NVLINK_RX_BYTES", "bytes per second", 1),
}
# Where the driver has no averaged power (GA100 and older), DCGM's field 155 is the instant one, its 157.
POWER_AVERAGE, POWER_INSTANT = 155, 157


class DcgmExporterCollector(Collector):
    """``DCGM_FI_*`` families: the last value of each device that is not silent."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._host = socket.gethostname()

    def collect(self) -> Iterator[Family]:
        """Yield the families that have a value."""
        metrics = {metric.dcgm: metric for metric in catalog().values()}
        # Their counter has no _total, which a counter of OpenMetrics must have: its type is left open.
        families = {
            number: Family(field.name, f"{metrics[number].help} Unit: {field.unit}.", _kind(metrics[number].kind))
            for number, field in FIELDS.items()
        }
        now = self._node.clock.monotonic()
        parents = {store.device.index: store.device for store in self._node.stores if store.device.instance is None}
        for sampler in self._node.samplers:
            for store in sampler.stores:
                device = store.device
                summary = store.summary(now - sampler.source.silent_after)
                if summary is None or not device.metrics or device.metrics[0].scope == "host":
                    continue
                labels = self._labels(device, parents.get(device.index, device))
                values = dict(zip([metric.dcgm for metric in device.metrics], summary.last.tolist(), strict=True))
                if math.isnan(values.get(POWER_AVERAGE, math.nan)):
                    values[POWER_AVERAGE] = values.get(POWER_INSTANT, math.nan)
                for number, field in FIELDS.items():
                    value = values.get(number, math.nan)
                    if not math.isnan(value):
                        families[number].add_sample(field.name, labels, value * field.factor)
        yield from (family for family in families.values() if family.samples)

    def _labels(self, device: Device, parent: Device) -> dict[str, str]:
        labels = {"gpu": str(device.index), "UUID": parent.uuid, "device": f"nvidia{device.index}", "Hostname": self._host}
        labels["modelName"] = parent.name
        static = self._node.static(parent.uuid)
        for name, attribute in (("pci_bus_id", "pci_bus_id"), ("DCGM_FI_DRIVER_VERSION", "driver_version")):
            if attribute in static:
                labels[name] = str(static[attribute].value)
        if device.instance is not None:
            labels["GPU_I_ID"] = str(device.instance)
            # NVML names an instance "<GPU> MIG <profile>", and so do the other sources where they know the profile.
            if profile := device.name.partition(" MIG ")[2]:
                labels["GPU_I_PROFILE"] = profile
        return labels


def _kind(kind: str) -> str:
    return "unknown" if kind == "counter" else kind
