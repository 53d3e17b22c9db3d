"""NVML's attributes of a GPU that do not change during a run."""

import logging
from collections.abc import Callable

import pynvml

from epochcast.agent.sources import Attribute
from epochcast.agent.sources.nvml_library import ANSWERS, DriverError, Handle, call

log = logging.getLogger(__name__)

MHZ = 1e6
MILLI = 1e-3

Read = Callable[[Handle], float | int | str]


def _pci_bus_id(handle: Handle) -> str:
    return str(pynvml.nvmlDeviceGetPciInfo(handle).busId)  # decoded when it is looked at


# Name → value in base units.
STATIC: dict[str, Read] = {
    "memory_total": lambda handle: int(call(pynvml.nvmlDeviceGetMemoryInfo, handle).total),  # bytes
    "bar1_total": lambda handle: int(call(pynvml.nvmlDeviceGetBAR1MemoryInfo, handle).bar1Total),  # bytes
    "max_sm_clock": lambda handle: call(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM) * MHZ,
    "max_memory_clock": lambda handle: call(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_MEM) * MHZ,
    "memory_bus_width": lambda handle: int(call(pynvml.nvmlDeviceGetMemoryBusWidth, handle)),  # bits
    "cuda_cores": lambda handle: int(call(pynvml.nvmlDeviceGetNumGpuCores, handle)),
    "compute_capability": lambda handle: "{}.{}".format(*call(pynvml.nvmlDeviceGetCudaComputeCapability, handle)),
    "power_limit": lambda handle: call(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle) * MILLI,  # mW → W
    "shutdown_temperature": lambda handle: float(
        call(pynvml.nvmlDeviceGetTemperatureThreshold, handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)
    ),  # °C
    "pcie_link_width": lambda handle: int(call(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle)),  # lanes
    "pcie_link_generation": lambda handle: int(call(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle)),
    "pci_bus_id": lambda handle: str(call(_pci_bus_id, handle)),
    "serial": lambda handle: str(call(pynvml.nvmlDeviceGetSerial, handle)),
    "driver_version": lambda handle: str(call(pynvml.nvmlSystemGetDriverVersion)),
}
# The same of a MIG instance: what belongs to it alone.
INSTANCE_STATIC: dict[str, Read] = {
    **{name: STATIC[name] for name in ("memory_total", "bar1_total", "driver_version")},
    "sm_count": lambda handle: int(call(pynvml.nvmlDeviceGetAttributes, handle).multiprocessorCount),
}


def static_attributes(label: str, handle: Handle, table: dict[str, Read]) -> dict[str, Attribute]:
    """Return the attributes of ``table`` that the GPU ``label`` reports, by name."""
    attributes = {}
    for name, read in table.items():
        try:
            attributes[name] = Attribute(read(handle), "nvml")
        except DriverError as error:
            # "Unknown Error" about one fact (virtual GPUs do that) must not cost the GPU; if it were gone, reading would fail.
            log.log(
                logging.DEBUG if error.code in ANSWERS else logging.INFO,
                "GPU %s does not report its %s: %s",
                label,
                name,
                error,
            )
    return attributes
