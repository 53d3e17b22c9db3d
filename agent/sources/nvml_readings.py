"""What classic NVML is asked: each reading is one call to the driver, with its arguments made once.

Calls and field ids are those of ``nvml.h``. Nothing here blocks for long: ``nvmlDeviceGetPcieThroughput`` (20 ms a direction)
and the process lists (milliseconds under the driver's global lock) stay out.
"""

from collections.abc import Callable, Sequence
from ctypes import byref, c_uint, c_ulonglong
from dataclasses import dataclass
from math import isnan, nan
from operator import mul
from struct import Struct, unpack_from
from time import monotonic
from typing import Any

import pynvml

from .nvml_library import GONE, SOME_ANSWER, VALUE_FORMATS, DriverError, Handle, call, formatted, function, member

MHZ = 1e6
PERCENT = 1e-2
MILLI = 1e-3
KIB = 1024
ALL_LINKS = 0xFFFFFFFF
# A PCIe lane moves at most so many bytes/s one way in its first generation, and twice as many in each later one.
LANE_BYTES_PER_S = 0.25e9

# From one reading of the fast tier to the next, at the full rate, with a tick that is a little late.
LATE_TICK_S = 0.12

# Returns values in base units; raises DriverError.
Read = Callable[[], Sequence[float]]


@dataclass(frozen=True)
class Reading:
    """One question to the driver: ``bind(handle)`` gives a function that returns ``metrics``, in this order.

    ``fast``: whether it tells anything new ten times a second.
    """

    metrics: tuple[str, ...]
    bind: Callable[[Handle], Read]
    fast: bool = True


def _number(name: str, scale: float, *arguments: int) -> Callable[[Handle], Read]:
    """Bind the NVML function ``name(handle, *arguments, unsigned *)`` of which one number times ``scale`` is wanted."""

    def bind(handle: Handle) -> Read:
        get, answer = function(name), c_uint()
        pointer = byref(answer)

        def read() -> tuple[float]:
            if code := get(handle, *arguments, pointer):
                raise DriverError(name, code)
            return (answer.value * scale,)

        return read

    return bind


def _usage_is_instant(handle: Handle) -> bool:
    # nvml.h: nvmlDeviceGetPowerUsage is a one-second average from Ampere on, GA100 (compute capability 8.0) excepted.
    return bool(call(pynvml.nvmlDeviceGetCudaComputeCapability, handle) <= (8, 0))


def _power_usage(handle: Handle) -> Read:
    if not _usage_is_instant(handle):
        raise DriverError("nvmlDeviceGetPowerUsage averages over a second here", pynvml.NVML_ERROR_NOT_SUPPORTED)
    return _number("nvmlDeviceGetPowerUsage", MILLI)(handle)


def _power_usage_average(handle: Handle) -> Read:
    if _usage_is_instant(handle):
        raise DriverError("nvmlDeviceGetPowerUsage gives no average here", pynvml.NVML_ERROR_NOT_SUPPORTED)
    return _number("nvmlDeviceGetPowerUsage", MILLI)(handle)


def _energy(handle: Handle) -> Read:
    get, answer = function("nvmlDeviceGetTotalEnergyConsumption"), c_ulonglong()
    pointer = byref(answer)

    def read() -> tuple[float]:
        if code := get(handle, pointer):
            raise DriverError("nvmlDeviceGetTotalEnergyConsumption", code)
        return (answer.value * MILLI,)  # mJ

    return read


def _pair(name: str, answer: Any, first: str, second: str, scale: float = 1.0) -> Callable[[Handle], Read]:
    """Bind the NVML function ``name(handle, structure *)`` of whose answer two members times ``scale`` are wanted."""

    def bind(handle: Handle) -> Read:
        get, own = function(name), type(answer).from_buffer_copy(answer)
        pointer, first_value, second_value = byref(own), member(own, first), member(own, second)

        def read() -> tuple[float, float]:
            if code := get(handle, pointer):
                raise DriverError(name, code)
            return first_value.value * scale, second_value.value * scale

        return read

    return bind


# Share of the driver's last window, 1/6 s to 1 s long.
_utilization_rates = _pair("nvmlDeviceGetUtilizationRates", pynvml.c_nvmlUtilization_t(), "gpu", "memory", PERCENT)


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


# In order of preference: a metric is taken from its field below, else from the first of these that gives it on a GPU.
READINGS = (
    Reading(("energy",), _energy),
    Reading(("power",), _power_usage),
    Reading(("power_average",), _power_usage_average),
    Reading(("gpu_utilization", "memory_utilization"), _utilization_samples, fast=False),
    Reading(("gpu_utilization", "memory_utilization"), _utilization_rates),
    Reading(("sm_clock",), _number("nvmlDeviceGetClockInfo", MHZ, pynvml.NVML_CLOCK_SM)),
    Reading(("memory_clock",), _number("nvmlDeviceGetClockInfo", MHZ, pynvml.NVML_CLOCK_MEM)),
    Reading(("temperature",), _number("nvmlDeviceGetTemperature", 1.0, pynvml.NVML_TEMPERATURE_GPU)),  # °C
    Reading(  # bytes; version 2 tells the driver's own reserve apart from what is used, as DCGM's fields 251 and 252 do
        ("memory_used", "memory_free"),
        _pair("nvmlDeviceGetMemoryInfo_v2", pynvml.c_nvmlMemory_v2_t(version=pynvml.nvmlMemory_v2), "used", "free"),
    ),
    Reading(("memory_used", "memory_free"), _pair("nvmlDeviceGetMemoryInfo", pynvml.c_nvmlMemory_t(), "used", "free")),
    Reading(
        ("bar1_used", "bar1_free"), _pair("nvmlDeviceGetBAR1MemoryInfo", pynvml.c_nvmlBAR1Memory_t(), "bar1Used", "bar1Free")
    ),
    Reading(("power_limit",), _number("nvmlDeviceGetEnforcedPowerLimit", MILLI)),  # mW
    Reading(("pcie_link_width",), _number("nvmlDeviceGetCurrPcieLinkWidth", 1.0)),  # lanes
)
# Of these a MIG instance has its own; all else belongs to the whole card.
OF_INSTANCES = frozenset({"memory_used", "memory_free", "bar1_used", "bar1_free"})


@dataclass(frozen=True)
class Field:
    """A metric that is an NVML field value: field ``id`` of ``scope`` times ``scale``; of a counter the metric is its rate."""

    metric: str
    id: int
    scale: float
    scope: int = 0
    counter: bool = False


FIELDS = (
    Field("energy", pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, MILLI),  # mJ
    Field("power", pynvml.NVML_FI_DEV_POWER_INSTANT, MILLI),  # mW
    Field("power_average", pynvml.NVML_FI_DEV_POWER_AVERAGE, MILLI),  # mW
    Field("pcie_tx", pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 1.0, counter=True),  # bytes
    Field("pcie_rx", pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 1.0, counter=True),
    Field("nvlink_tx", pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, KIB, ALL_LINKS, counter=True),  # KiB
    Field("nvlink_rx", pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, KIB, ALL_LINKS, counter=True),
)


class FieldValues:
    """Several fields of one GPU in one call (``nvmlDeviceGetFieldValues``)."""

    def __init__(self, handle: Handle, fields: Sequence[Field]) -> None:
        self._handle = handle
        self._get = function("nvmlDeviceGetFieldValues")
        self._fields = tuple(fields)
        self._array = (pynvml.c_nvmlFieldValue_t * len(fields))()
        for answer, field in zip(self._array, fields, strict=True):
            answer.fieldId, answer.scopeId = field.id, field.scope
        self._before: list[tuple[int, float] | None] = [None] * len(fields)
        # Nothing but a counter that wraps needs to know.
        self._counters = any(field.counter for field in fields)
        self._wrap_s = _seconds_to_wrap(handle) if self._counters else 0.0
        self._scales = tuple(field.scale for field in fields)
        self._kinds: tuple[int, ...] = ()
        self._answers = Struct("")

    def refusals(self) -> list[DriverError | None]:
        """Return for each field why it gives no value, None where it does."""
        self._call()
        return [self._refusal(field, answer) for field, answer in zip(self._fields, self._array, strict=True)]

    def _refusal(self, field: Field, answer: Any) -> DriverError | None:
        if answer.nvmlReturn:
            return DriverError(f"NVML field {field.id}", answer.nvmlReturn)
        if field.counter and answer.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT and self._wrap_s < LATE_TICK_S:
            return DriverError(
                f"NVML field {field.id} may wrap more than once between two readings", pynvml.NVML_ERROR_NOT_SUPPORTED
            )
        return None

    def read(self) -> list[float]:
        """Return the values, NaN for a field without one; raises DriverError."""
        self._call()
        got = self._answers.unpack_from(self._array)
        # Not known before the first answer; may change where there was no value.
        if got[0::3] != self._kinds or not self._kinds:
            self._kinds = tuple(answer.valueType for answer in self._array)
            self._answers = Struct("=" + "".join(_layout(kind) for kind in self._kinds))
            got = self._answers.unpack_from(self._array)
        failed = any(got[1::3])
        if not failed and not self._counters:
            return list(map(mul, got[2::3], self._scales))
        if failed:
            self._check(got[1::3])
        return [
            (self._rate(i, got[3 * i + 2], self._kinds[i]) if field.counter else got[3 * i + 2]) * field.scale
            if got[3 * i + 1] == pynvml.NVML_SUCCESS
            else nan
            for i, field in enumerate(self._fields)
        ]

    def _call(self) -> None:
        self._now = monotonic()
        if code := self._get(self._handle, len(self._fields), self._array):
            raise DriverError("nvmlDeviceGetFieldValues", code)

    def _check(self, codes: Sequence[int]) -> None:
        """Raise DriverError when no field answers: then the GPU does not."""
        gone = GONE.intersection(codes)
        if gone or SOME_ANSWER.isdisjoint(codes):
            raise DriverError("nvmlDeviceGetFieldValues", next(iter(gone or codes)))

    def _rate(self, i: int, raw: int, kind: int) -> float:
        """Return the growth per second since the last reading; NaN where that cannot be known, never less than zero."""
        before, self._before[i] = self._before[i], (raw, self._now)
        if before is None:
            return nan
        growth, seconds = raw - before[0], self._now - before[1]
        if kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT:
            # "Value can be wrapped" (nvml.h): it may have, once, but not twice. Below 10 Hz that is never sure.
            return growth % 2**32 / seconds if 0 < seconds < self._wrap_s else nan
        return growth / seconds if growth >= 0 and seconds > 0 else nan


def _layout(kind: int) -> str:
    """Return the format of type, return code and value of one field value."""
    return formatted(pynvml.c_nvmlFieldValue_t, {"valueType": "I", "nvmlReturn": "I", "value": VALUE_FORMATS.get(kind, "Q")})


def _seconds_to_wrap(handle: Handle) -> float:
    """Return the time in which the PCIe link could send 2**32 bytes one way."""
    try:
        generation = call(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, handle)
        lanes = call(pynvml.nvmlDeviceGetMaxPcieLinkWidth, handle)
    except DriverError as error:
        if error.gone:
            raise
        return 0.0
    return float(2**32 / (LANE_BYTES_PER_S * 2 ** (generation - 1) * lanes))
