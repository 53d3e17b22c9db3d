"""NVIDIA GPUs through NVML, the driver's own library: no DCGM, no privileges.

Calls and field ids are those of ``nvml.h``. Nothing here blocks: ``nvmlDeviceGetPcieThroughput`` (20 ms a direction) and the
process lists (milliseconds under the driver's global lock) stay out.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pynvml
from numpy.typing import NDArray

from ..catalog import catalog
from ..errors import InputError
from . import Attribute, Device, Options, Row, Tick

log = logging.getLogger(__name__)

MHZ = 1e6
PERCENT = 1e-2
MILLI = 1e-3
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 60.0

# Errors that concern one metric on one GPU; any other means that the GPU itself does not answer.
METRIC_ERRORS = frozenset(
    {
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_DATA,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
        pynvml.NVML_ERROR_NOT_READY,
    }
)

Handle = Any


class MetricUnavailableError(Exception):
    """This GPU or driver does not give this metric."""


class GpuAbsentError(Exception):
    """The GPU, or the driver as a whole, does not answer."""


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call NVML; the vendor's errors become `MetricUnavailableError` or `GpuAbsentError` here and nowhere else."""
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        kind = MetricUnavailableError if error.value in METRIC_ERRORS else GpuAbsentError
        raise kind(f"{function.__name__}: {error}") from error
    except pynvml.NVMLLibraryMismatchError as error:  # not an NVMLError: a symbol this old driver lacks
        raise MetricUnavailableError(f"{function.__name__}: {error}") from error


def _fields(handle: Handle, *ids: int) -> tuple[float, ...]:
    """Return the values of NVML fields, read in one call; NaN for a field that this GPU does not give."""
    return tuple(_field_value(value) for value in _call(pynvml.nvmlDeviceGetFieldValues, handle, ids))


def _field_value(field: Any) -> float:
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        if field.nvmlReturn not in METRIC_ERRORS:
            raise GpuAbsentError(f"NVML field {field.fieldId}: error {field.nvmlReturn}")
        return np.nan
    member = VALUE_MEMBERS.get(field.valueType)
    return np.nan if member is None else float(getattr(field.value, member))


VALUE_MEMBERS = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}


def _energy_and_power(handle: Handle) -> tuple[float, ...]:
    energy, power = _fields(handle, pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, pynvml.NVML_FI_DEV_POWER_INSTANT)
    return energy * MILLI, power * MILLI  # mJ, mW


def _energy(handle: Handle) -> tuple[float, ...]:
    return (_call(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle) * MILLI,)  # mJ


def _power_usage(handle: Handle) -> float:
    return float(_call(pynvml.nvmlDeviceGetPowerUsage, handle) * MILLI)  # mW


def _usage_is_instant(handle: Handle) -> bool:
    # nvml.h: nvmlDeviceGetPowerUsage is a one-second average from Ampere on, GA100 (compute capability 8.0) excepted.
    return bool(_call(pynvml.nvmlDeviceGetCudaComputeCapability, handle) <= (8, 0))


def _power_from_usage(handle: Handle) -> tuple[float, ...]:
    return (_power_usage(handle) if _usage_is_instant(handle) else np.nan,)


def _power_average(handle: Handle) -> tuple[float, ...]:
    (power,) = _fields(handle, pynvml.NVML_FI_DEV_POWER_AVERAGE)
    return (power * MILLI,)  # mW


def _power_average_from_usage(handle: Handle) -> tuple[float, ...]:
    return (np.nan if _usage_is_instant(handle) else _power_usage(handle),)


def _utilization(handle: Handle) -> tuple[float, ...]:
    rates = _call(pynvml.nvmlDeviceGetUtilizationRates, handle)
    return rates.gpu * PERCENT, rates.memory * PERCENT  # percent


def _clocks(handle: Handle) -> tuple[float, ...]:
    sm = _call(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)
    memory = _call(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_MEM)
    return sm * MHZ, memory * MHZ  # MHz


def _temperature(handle: Handle) -> tuple[float, ...]:
    return (float(_call(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU)),)  # °C


def _memory(handle: Handle) -> tuple[float, ...]:
    # Version 2 tells the driver's own reserve apart from what is used, as DCGM's fields 251 and 252 do.
    memory = _call(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return float(memory.used), float(memory.free)  # bytes


def _memory_v1(handle: Handle) -> tuple[float, ...]:
    memory = _call(pynvml.nvmlDeviceGetMemoryInfo, handle)
    return float(memory.used), float(memory.free)  # bytes


def _bar1(handle: Handle) -> tuple[float, ...]:
    bar1 = _call(pynvml.nvmlDeviceGetBAR1MemoryInfo, handle)
    return float(bar1.bar1Used), float(bar1.bar1Free)  # bytes


@dataclass(frozen=True)
class Reading:
    """One question to the driver: the metrics that ``read(handle)`` returns, in its order."""

    metrics: tuple[str, ...]
    read: Callable[[Handle], tuple[float, ...]]


# In order of preference: a metric is taken from the first reading that gives it on a GPU.
READINGS = (
    Reading(("energy", "power"), _energy_and_power),
    Reading(("energy",), _energy),
    Reading(("power",), _power_from_usage),
    Reading(("power_average",), _power_average),
    Reading(("power_average",), _power_average_from_usage),
    Reading(("gpu_utilization", "memory_utilization"), _utilization),
    Reading(("sm_clock", "memory_clock"), _clocks),
    Reading(("temperature",), _temperature),
    Reading(("memory_used", "memory_free"), _memory),
    Reading(("memory_used", "memory_free"), _memory_v1),
    Reading(("bar1_used", "bar1_free"), _bar1),
)

# Attributes read once, at the start: name → value in base units.
STATIC: dict[str, Callable[[Handle], float | int | str]] = {
    "memory_total": lambda handle: int(_call(pynvml.nvmlDeviceGetMemoryInfo, handle).total),  # bytes
    "bar1_total": lambda handle: int(_call(pynvml.nvmlDeviceGetBAR1MemoryInfo, handle).bar1Total),  # bytes
    "max_sm_clock": lambda handle: _call(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_SM) * MHZ,
    "max_memory_clock": lambda handle: _call(pynvml.nvmlDeviceGetMaxClockInfo, handle, pynvml.NVML_CLOCK_MEM) * MHZ,
    "memory_bus_width": lambda handle: int(_call(pynvml.nvmlDeviceGetMemoryBusWidth, handle)),  # bits
    "cuda_cores": lambda handle: int(_call(pynvml.nvmlDeviceGetNumGpuCores, handle)),
    "compute_capability": lambda handle: "{}.{}".format(*_call(pynvml.nvmlDeviceGetCudaComputeCapability, handle)),
    "power_limit": lambda handle: _call(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle) * MILLI,  # mW → W
    "shutdown_temperature": lambda handle: float(
        _call(pynvml.nvmlDeviceGetTemperatureThreshold, handle, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)
    ),  # °C
    "pcie_link_width": lambda handle: int(_call(pynvml.nvmlDeviceGetCurrPcieLinkWidth, handle)),  # lanes
    "driver_version": lambda handle: str(_call(pynvml.nvmlSystemGetDriverVersion)),
}


class Gpu:
    """One GPU: what it is, which readings it answers, and since when it does not."""

    def __init__(self, index: int) -> None:
        self._handle: Handle | None = _call(pynvml.nvmlDeviceGetHandleByIndex, index)
        self._retry_at = 0.0
        self._retry_after = FIRST_RETRY_S
        sources, unmeasured = self._probe()
        metrics = tuple(metric for metric in catalog().values() if metric.name in sources)
        # Per reading that is used: whether all that is taken from it is slow, and (position in its result, column) of each.
        self._readings: list[tuple[Reading, bool, list[tuple[int, int]]]] = []
        for reading in READINGS:
            taken = [(column, metric) for column, metric in enumerate(metrics) if sources[metric.name] is reading]
            if taken:
                slow = all(metric.tier == "slow" for _, metric in taken)
                places = [(reading.metrics.index(metric.name), column) for column, metric in taken]
                self._readings.append((reading, slow, places))
        self.device = Device(
            index=index,
            uuid=_call(pynvml.nvmlDeviceGetUUID, self._handle),
            name=_call(pynvml.nvmlDeviceGetName, self._handle),
            metrics=metrics,
            static=self._static(index),
            unmeasured=unmeasured,
        )

    def _probe(self) -> tuple[dict[str, Reading], dict[str, str]]:
        """Try every reading once; return which one gives each metric, and the reason for the metrics that none gives."""
        sources: dict[str, Reading] = {}
        reasons: dict[str, str] = {}
        for reading in READINGS:
            try:
                values = reading.read(self._handle)
            except MetricUnavailableError as error:
                reasons |= dict.fromkeys(reading.metrics, str(error))
                continue
            for name, value in zip(reading.metrics, values, strict=True):
                if np.isnan(value):
                    reasons.setdefault(name, "not supported by this GPU and driver")
                else:
                    sources.setdefault(name, reading)
        return sources, {name: reason for name, reason in reasons.items() if name not in sources}

    def _static(self, index: int) -> dict[str, Attribute]:
        static = {}
        for name, read in STATIC.items():
            try:
                static[name] = Attribute(read(self._handle), "nvml")
            except (MetricUnavailableError, GpuAbsentError) as error:
                # "Unknown Error" about one fact (virtual GPUs do that) must not cost the GPU; were it gone, reading would tell.
                log.info("GPU %d does not tell its %s: %s", index, name, error)
        return static

    @property
    def absent(self) -> bool:
        """Whether the GPU has stopped answering."""
        return self._handle is None

    def due(self, tick: Tick) -> bool:
        """Whether an absent GPU is to be tried again at this tick."""
        return tick.elapsed >= self._retry_at

    def read(self, tick: Tick) -> NDArray[np.float64] | None:
        """Return this tick's values, None when the GPU does not answer; it is tried again after 1, 2, 4 … 60 s."""
        try:
            if self._handle is None:
                if not self.due(tick):
                    return None
                self._handle = _call(pynvml.nvmlDeviceGetHandleByUUID, self.device.uuid)
                # After a silence every metric is due.
                tick = tick._replace(slow=True)
            values = self._values(tick.slow)
        except (GpuAbsentError, MetricUnavailableError) as error:
            if self._retry_after == FIRST_RETRY_S:
                log.warning("GPU %d (%s) does not answer: %s", self.device.index, self.device.uuid, error)
            self._handle = None
            self._retry_at = tick.elapsed + self._retry_after
            self._retry_after = min(2 * self._retry_after, LONGEST_RETRY_S)
            return None
        if self._retry_after != FIRST_RETRY_S:
            log.warning("GPU %d (%s) answers again", self.device.index, self.device.uuid)
            self._retry_after = FIRST_RETRY_S
        return values

    def _values(self, slow: bool) -> NDArray[np.float64]:
        values = np.full(len(self.device.metrics), np.nan)
        for reading, only_slow, places in self._readings:
            if only_slow and not slow:
                continue
            try:
                result = reading.read(self._handle)
            except MetricUnavailableError:
                continue  # blank at this tick: absent, never the value before
            for position, column in places:
                values[column] = result[position]
        return values


class NvmlSource:
    """All GPUs that the driver shows. A GPU that stops answering is left out and tried again while the others go on."""

    name = "nvml"
    hertz = 10.0
    interval = 0.1
    silent_after = 1.0
    recorded_rows = None
    finished = False

    def __init__(self, options: Options) -> None:
        del options  # this source has none
        try:
            _call(pynvml.nvmlInit)
            count = _call(pynvml.nvmlDeviceGetCount)
        except (GpuAbsentError, MetricUnavailableError) as error:
            raise InputError(
                f"source 'nvml' cannot use the NVIDIA driver ({error}); install or repair it, or choose --source host"
            ) from error
        self._gpus: list[Gpu] = []
        for index in range(count):
            try:
                self._gpus.append(Gpu(index))
            except (GpuAbsentError, MetricUnavailableError) as error:
                log.warning("GPU %d does not answer and is left out until the agent restarts: %s", index, error)
        if not self._gpus:
            raise InputError(
                f"source 'nvml' finds the NVIDIA driver but no GPU that answers (of {count}); choose --source host"
            )
        self.devices = tuple(gpu.device for gpu in self._gpus)

    def read(self, tick: Tick) -> Iterable[Row]:
        """Return one row per GPU that answers; raise RuntimeError when none does."""
        if all(gpu.absent for gpu in self._gpus) and any(gpu.due(tick) for gpu in self._gpus):
            self.close()
            self._restart()
        rows = []
        for position, gpu in enumerate(self._gpus):
            values = gpu.read(tick)
            if values is not None:
                rows.append(Row(position, tick.time, values))
        if not rows:
            raise RuntimeError("no GPU answers")
        return rows

    def _restart(self) -> None:
        # With every GPU gone the library itself may be stale (driver reloaded, device cgroup applied anew).
        try:
            _call(pynvml.nvmlInit)
        except (GpuAbsentError, MetricUnavailableError) as error:
            log.debug("%s", error)

    def close(self) -> None:
        """Give the driver's library back."""
        try:
            _call(pynvml.nvmlShutdown)
        except (GpuAbsentError, MetricUnavailableError) as error:
            log.debug("%s", error)
