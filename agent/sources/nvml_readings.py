"""What classic NVML is asked: each reading is one call to the driver, with its arguments made once.

Calls and field ids are those of ``nvml.h``. Nothing here blocks for long: ``nvmlDeviceGetPcieThroughput`` (20 ms a direction)
and the process lists (milliseconds under the driver's global lock) stay out.
"""

from collections.abc import Callable, Sequence
from ctypes import byref, c_uint, c_ulonglong
from dataclasses import dataclass
from math import isnan, nan
from struct import unpack_from
from typing import Any

import pynvml

from epochcast.agent.catalog import catalog
from epochcast.agent.sources.nvml_fields import MILLI, PORT_ERRORS, nvlink_ports
from epochcast.agent.sources.nvml_library import VALUE_FORMATS, DriverError, Handle, call, formatted, function, member

MHZ = 1e6
PERCENT = 1e-2
# Returns values in base units; raises DriverError.
Read = Callable[[], Sequence[float]]


@dataclass(frozen=True)
class Reading:
    """One question to the driver: ``bind(handle)`` gives a function that returns ``metrics``, in this order.

    ``fast``: whether its value changes ten times a second.
    """

    metrics: tuple[str, ...]
    bind: Callable[[Handle], Read]
    fast: bool = True


def _number(name: str, scale: float, *arguments: int, kind: type[Any] = c_uint, more: int = 0) -> Callable[[Handle], Read]:
    """Bind the NVML function ``name(handle, *arguments, kind *)`` of which one number times ``scale`` is wanted.

    ``more``: numbers of the same kind that it gives after that one.
    """

    def bind(handle: Handle) -> Read:
        get, answer = function(name), kind()
        pointers = byref(answer), *(byref(kind()) for _ in range(more))

        def read() -> tuple[float]:
            if code := get(handle, *arguments, *pointers):
                raise DriverError(name, code)
            return (answer.value * scale,)

        return read

    return bind


def _usage_is_instant(handle: Handle) -> bool:
    # nvml.h: nvmlDeviceGetPowerUsage is a one-second average from Ampere on, GA100 (compute capability 8.0) excepted.
    return bool(call(pynvml.nvmlDeviceGetCudaComputeCapability, handle) <= (8, 0))


def _power_usage(instant: bool) -> Callable[[Handle], Read]:
    """Bind the power, where it is of the moment or where it is an average."""

    def bind(handle: Handle) -> Read:
        if _usage_is_instant(handle) is not instant:
            sentence = "averages over a second here" if instant else "gives no average here"
            raise DriverError(f"nvmlDeviceGetPowerUsage {sentence}", pynvml.NVML_ERROR_NOT_SUPPORTED)
        return _number("nvmlDeviceGetPowerUsage", MILLI)(handle)

    return bind


def _members(name: str, answer: Any, *members: str, scale: float = 1.0) -> Callable[[Handle], Read]:
    """Bind the NVML function ``name(handle, structure *)`` of whose answer these members times ``scale`` are wanted."""

    def bind(handle: Handle) -> Read:
        get, own = function(name), type(answer).from_buffer_copy(answer)
        pointer, values = byref(own), [member(own, each) for each in members]

        def read() -> list[float]:
            if code := get(handle, pointer):
                raise DriverError(name, code)
            return [value.value * scale for value in values]

        return read

    return bind


# Share of the driver's last window, 1/6 s to 1 s long.
_utilization_rates = _members("nvmlDeviceGetUtilizationRates", pynvml.c_nvmlUtilization_t(), "gpu", "memory", scale=PERCENT)


# Metric -> its bit among the clocks event reasons.
EVENTS = {metric.name: metric.event for metric in catalog().values() if metric.event is not None}


def _clocks_events(word: str) -> Callable[[Handle], Read]:
    """Bind 1 for each of `EVENTS` that holds now, 0 for the others, NaN for those that the GPU does not know.

    ``word``: what this driver calls them. It is one moment in each second, where a counter of time has all moments.
    """

    def bind(handle: Handle) -> Read:
        get, answer = function(f"nvmlDeviceGetCurrentClocks{word}Reasons"), c_ulonglong()
        pointer = byref(answer)
        if code := function(f"nvmlDeviceGetSupportedClocks{word}Reasons")(handle, pointer):
            raise DriverError(f"nvmlDeviceGetSupportedClocks{word}Reasons", code)
        known = [bit if answer.value & bit else None for bit in EVENTS.values()]

        def read() -> list[float]:
            if code := get(handle, pointer):
                raise DriverError(f"nvmlDeviceGetCurrentClocks{word}Reasons", code)
            return [nan if bit is None else float(bool(answer.value & bit)) for bit in known]

        return read

    return bind


def _vgpu_license(handle: Handle) -> Read:
    name = "nvmlDeviceGetGridLicensableFeatures_v4"
    get, answer = function(name), pynvml.c_nvmlGridLicensableFeatures_v4_t()
    pointer = byref(answer)

    def read() -> tuple[float]:
        if code := get(handle, pointer):
            raise DriverError(name, code)
        if not answer.isGridLicenseSupported:
            raise DriverError(name, pynvml.NVML_ERROR_NOT_SUPPORTED)
        features = answer.gridLicensableFeatures[: answer.licensableFeaturesCount]
        return (float(max((each.featureState for each in features if each.featureEnabled), default=0)),)

    return read


class _Samples:
    """The driver's buffer of one kind of sample (``nvmlDeviceGetSamples``), read from where it was last left."""

    def __init__(self, handle: Handle, kind: int) -> None:
        self._get = function("nvmlDeviceGetSamples")
        self._type, self._count = c_uint(), c_uint()
        self._arguments = (handle, kind)
        self._last_seen = c_ulonglong(0)
        self._pointers = (byref(self._type), byref(self._count))
        if code := self._get(handle, kind, self._last_seen, *self._pointers, None):
            raise DriverError("nvmlDeviceGetSamples", code)
        self._room = self._count.value
        self._samples = (pynvml.c_nvmlSample_t * self._room)()
        self.mean()  # what the driver gathered before now is not ours

    def mean(self) -> float:
        """Return the mean of the samples since the last call, NaN when there is none."""
        self._count.value = self._room
        code = self._get(*self._arguments, self._last_seen, *self._pointers, self._samples)
        if code and code != pynvml.NVML_ERROR_NOT_FOUND:
            raise DriverError("nvmlDeviceGetSamples", code)
        count = 0 if code else self._count.value
        if count == 0:
            return nan
        layout = formatted(pynvml.c_nvmlSample_t, {"timeStamp": "Q", "sampleValue": VALUE_FORMATS[self._type.value]})
        samples = unpack_from("=" + layout * count, self._samples)
        self._last_seen.value = max(samples[0::2])
        return float(sum(samples[1::2])) / count


def _utilization_samples(handle: Handle) -> Read:
    """Bind the mean of all the driver's windows since the last reading: none is left out, and none counts twice."""
    gpu = _Samples(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES)
    memory = _Samples(handle, pynvml.NVML_MEMORY_UTILIZATION_SAMPLES)
    rates = _utilization_rates(handle)

    def read() -> Sequence[float]:
        values = gpu.mean() * PERCENT, memory.mean() * PERCENT
        return rates() if isnan(values[0]) or isnan(values[1]) else values

    return read


# In order of preference: a metric is taken from its field (nvml_fields.py), else from the first of these that gives it.
READINGS = (
    Reading(("energy",), _number("nvmlDeviceGetTotalEnergyConsumption", MILLI, kind=c_ulonglong)),  # mJ
    Reading(("power",), _power_usage(instant=True)),
    Reading(("power_average",), _power_usage(instant=False)),
    Reading(("gpu_utilization", "memory_utilization"), _utilization_samples, fast=False),
    Reading(("gpu_utilization", "memory_utilization"), _utilization_rates),
    Reading(("sm_clock",), _number("nvmlDeviceGetClockInfo", MHZ, pynvml.NVML_CLOCK_SM)),
    Reading(("memory_clock",), _number("nvmlDeviceGetClockInfo", MHZ, pynvml.NVML_CLOCK_MEM)),
    Reading(("temperature",), _number("nvmlDeviceGetTemperature", 1.0, pynvml.NVML_TEMPERATURE_GPU)),  # °C
    Reading(  # bytes; version 2 tells the driver's own reserve apart from what is used, as DCGM's fields 251 and 252 do
        ("memory_used", "memory_free", "memory_reserved"),
        _members(
            "nvmlDeviceGetMemoryInfo_v2", pynvml.c_nvmlMemory_v2_t(version=pynvml.nvmlMemory_v2), "used", "free", "reserved"
        ),
    ),
    Reading(("memory_used", "memory_free"), _members("nvmlDeviceGetMemoryInfo", pynvml.c_nvmlMemory_t(), "used", "free")),
    Reading(
        ("bar1_used", "bar1_free"),
        _members("nvmlDeviceGetBAR1MemoryInfo", pynvml.c_nvmlBAR1Memory_t(), "bar1Used", "bar1Free"),
    ),
    Reading(tuple(EVENTS), _clocks_events("Event")),
    Reading(tuple(EVENTS), _clocks_events("Throttle")),  # until driver 535
    Reading(("fan_speed",), _number("nvmlDeviceGetFanSpeed", PERCENT)),
    # Of these the driver tells the window too, which nobody wants.
    Reading(("encoder_utilization",), _number("nvmlDeviceGetEncoderUtilization", PERCENT, more=1)),
    Reading(("decoder_utilization",), _number("nvmlDeviceGetDecoderUtilization", PERCENT, more=1)),
    Reading(tuple(PORT_ERRORS), nvlink_ports),
    Reading(("vgpu_license_status",), _vgpu_license),
    Reading(("power_limit",), _number("nvmlDeviceGetEnforcedPowerLimit", MILLI)),  # mW
    Reading(("pcie_link_width",), _number("nvmlDeviceGetCurrPcieLinkWidth", 1.0)),  # lanes
)
# Of these a MIG instance has its own; all else belongs to the whole card.
OF_INSTANCES = frozenset({"memory_used", "memory_free", "memory_reserved", "bar1_used", "bar1_free"})
