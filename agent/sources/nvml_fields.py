"""NVML's field values: many numbers of one GPU in one call (``nvmlDeviceGetFieldValues``), ids as in ``nvml.h``."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import nan
from operator import mul
from struct import Struct
from time import monotonic
from typing import Any

import pynvml

from epochcast.agent.plausible import share_of_time
from epochcast.agent.sources.nvml_library import (
    GONE,
    SOME_ANSWER,
    VALUE_FORMATS,
    DriverError,
    Handle,
    call,
    formatted,
    function,
)

MILLI = 1e-3
NANO = 1e-9
KIB = 1024
ALL_LINKS = 0xFFFFFFFF
# A PCIe lane moves at most so many bytes/s one way in its first generation, and twice as many in each later one.
LANE_BYTES_PER_S = 0.25e9
# From one reading of the fast tier to the next, at the full rate, with a tick that is a little late.
LATE_TICK_S = 0.12


@dataclass(frozen=True)
class Field:
    """A metric that is an NVML field value: field ``id`` of ``scope`` times ``scale``; of a counter the metric is its rate.

    ``time``: whether it counts time, so that its rate is a share. Of the metric's fields the first that a GPU answers is taken.
    """

    metric: str
    id: int
    scale: float
    scope: int = 0
    counter: bool = False
    time: bool = False


def _time(metric: str, number: int) -> Field:
    """Return the share of time that a counter of nanoseconds means."""
    return Field(metric, number, NANO, counter=True, time=True)


FIELDS = (
    Field("energy", pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, MILLI),  # mJ
    Field("power", pynvml.NVML_FI_DEV_POWER_INSTANT, MILLI),  # mW
    Field("power_average", pynvml.NVML_FI_DEV_POWER_AVERAGE, MILLI),  # mW
    Field("pcie_tx", pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 1.0, counter=True),  # bytes
    Field("pcie_rx", pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 1.0, counter=True),
    Field("nvlink_tx", pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, KIB, ALL_LINKS, counter=True),  # KiB
    Field("nvlink_rx", pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, KIB, ALL_LINKS, counter=True),
    Field("memory_temperature", pynvml.NVML_FI_DEV_MEMORY_TEMP, 1.0),  # °C
    _time("throttled_power_cap", pynvml.NVML_FI_DEV_PERF_POLICY_POWER),
    # That of the driver's software alone takes 3 µs on an H200, the sum with the hardware's 0.4 ms.
    _time("throttled_thermal", pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN),
    _time("throttled_thermal", pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL),
    _time("throttled_hardware_thermal", pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN),
    _time("throttled_power_brake", pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN),
    _time("throttled_board_limit", pynvml.NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT),
    _time("throttled_reliability", pynvml.NVML_FI_DEV_PERF_POLICY_RELIABILITY),
    Field("ecc_correctable_errors", pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, 1.0),
    Field("ecc_uncorrectable_errors", pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, 1.0),
    Field("remapped_rows_correctable", pynvml.NVML_FI_DEV_REMAPPED_COR, 1.0),
    Field("remapped_rows_uncorrectable", pynvml.NVML_FI_DEV_REMAPPED_UNC, 1.0),
    Field("row_remap_pending", pynvml.NVML_FI_DEV_REMAPPED_PENDING, 1.0),
    Field("row_remap_failure", pynvml.NVML_FI_DEV_REMAPPED_FAILURE, 1.0),
    Field("nvlink_crc_flit_errors", pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 1.0),
    Field("nvlink_crc_data_errors", pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, 1.0),
    Field("nvlink_replay_errors", pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 1.0),
    Field("nvlink_recovery_errors", pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, 1.0),
    Field("pcie_replays", pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 1.0),
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
        self._counters = [i for i, field in enumerate(fields) if field.counter]
        # Nothing but a counter that wraps needs to know.
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
        if field.time and answer.valueType != pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
            # Headers before driver 580 have other numbers for some, whose values are no such counters.
            return DriverError(f"NVML field {field.id} is not a counter of time", pynvml.NVML_ERROR_NOT_SUPPORTED)
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
        values = list(map(mul, got[2::3], self._scales))
        for i in self._counters:
            if not got[3 * i + 1]:
                values[i] = self._rate(i, got[3 * i + 2], self._kinds[i]) * self._scales[i]
                if self._fields[i].time:
                    values[i] = share_of_time(values[i])
        if any(got[1::3]):
            self._check(got[1::3])
            values = [nan if code else value for code, value in zip(got[1::3], values, strict=True)]
        return values

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


# Metric -> the field of each NVLink's own counter. Hopper has no totals; from Blackwell on the driver has neither.
PORT_ERRORS = {
    "nvlink_crc_errors": pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC,
    "nvlink_replay_errors": pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,
    "nvlink_recovery_errors": pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
}


def nvlink_ports(handle: Handle) -> Callable[[], Sequence[float]]:
    """Bind the sums of `PORT_ERRORS` over the ports that count them; NaN where none does, or where one fails to answer."""
    count = FieldValues(handle, [Field("", pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT, 1.0)])
    if refusal := count.refusals()[0]:
        raise refusal
    ports = range(int(count.read()[0]))
    fields = [Field(metric, field, 1.0, port) for metric, field in PORT_ERRORS.items() for port in ports]
    refusals = FieldValues(handle, fields).refusals() if fields else []
    answering = [field for field, refusal in zip(fields, refusals, strict=True) if refusal is None]
    if not answering:
        raise DriverError("NVLink errors by port", pynvml.NVML_ERROR_NOT_SUPPORTED)
    values = FieldValues(handle, answering)
    counts = Counter(field.metric for field in answering)
    ends = list(accumulate(counts[metric] for metric in PORT_ERRORS))
    parts = [slice(end - counts[metric], end) for metric, end in zip(PORT_ERRORS, ends, strict=True)]

    def read() -> list[float]:
        got = values.read()
        return [sum(got[part]) if part.start < part.stop else nan for part in parts]

    return read
