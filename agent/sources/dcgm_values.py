"""DCGM's fields by number, as far as the catalogue has them, and their values, decoded all at once by numpy.

Numbers and units are those of ``dcgm_fields.h``. The numbers are stable; DCGM 4.6 renamed the fields, and 4.7 has new numbers
for those in base units next to them. Values come as ``c_dcgmFieldValue_v1`` of DCGM's Python bindings.
"""

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.catalog import Metric

PROFILING_FIELDS = range(1001, 1100)
# A MIG instance has its own share of these; power, clocks and the like are the whole card's.
INSTANCE_FIELDS = frozenset({251, 252, 253, *PROFILING_FIELDS})
# Counters of nanoseconds: how fast they grow is the share of time that the metric is.
TIME_FIELDS = frozenset({240, 241, 243, 245})
NANO = 1e-9
# The clocks event reasons, one bit each. The bits that are metrics go by numbers of our own, beyond DCGM's fields.
EVENTS_FIELD = 112
FIRST_EVENT_FIELD = 0xFF00
# Of Xid errors DCGM keeps each one's number, when it comes.
XID_FIELD = 230
# What Hopper counts instead of the sums over its NVLinks.
INSTEAD = {429: 499, 439: 498}
# dcgmvalue.py: from here on a value is one of the blanks; how far beyond says which.
INT64_BLANK = 0x7FFFFFFFFFFFFFF0
FP64_BLANK = 2.0**47
# Why DCGM can never read a field on a device: the blank's distance from the first → in words.
REASONS = {2: "not supported by this GPU and driver", 3: "DCGM's host engine lacks the permission to read it"}
STATUS_REASONS = {-6: 2, -17: 3}  # a value's status DCGM_ST_NOT_SUPPORTED or DCGM_ST_NO_PERMISSION says the same
# dcgm_fields.py: DCGM_FT_DOUBLE, DCGM_FT_INT64, DCGM_FT_TIMESTAMP.
REAL = ord("d")
WHOLE = (ord("i"), ord("t"))


def field_number(metric: Metric) -> int | None:
    """Return the field of a metric, or a number of our own for what is made of a field; None where DCGM lacks it."""
    if metric.dcgm is None and metric.event is not None:
        return FIRST_EVENT_FIELD + metric.event.bit_length() - 1
    return metric.dcgm


def watched_field(number: int) -> int:
    """Return the field of DCGM behind a `field_number`."""
    return EVENTS_FIELD if number >= FIRST_EVENT_FIELD else number


class Readings:
    """Receives values in DCGM's callback, which keeps the first bytes of each; `take` decodes what came.

    DCGM calls once per value: the bindings' own collection builds four Python objects in each call, this one copies 32 bytes.
    ``numbers``: those of `field_number` that are of interest.
    """

    def __init__(self, structs: Any, numbers: Iterable[int]) -> None:
        self._events = [number for number in numbers if number >= FIRST_EVENT_FIELD]
        value = structs.c_dcgmFieldValue_v1
        start = value.value.offset
        self._size = start + 8
        self._stride = ctypes.sizeof(value)
        self._layout = np.dtype(
            {
                "names": ["field", "type", "status", "ts", "int", "float"],
                "formats": ["u2", "i2", "i4", "i8", "i8", "f8"],
                "offsets": [value.fieldId.offset, value.fieldType.offset, value.status.offset, value.ts.offset, start, start],
                "itemsize": self._size,
            }
        )
        self._bytes = bytearray()
        self._owners: list[int] = []
        # Of the shape of dcgm_agent.dcgmFieldValueEntityEnumeration_f, with a plain address for the array of values.
        u32, i32, address = ctypes.c_uint32, ctypes.c_int32, ctypes.c_void_p
        self.callback = ctypes.CFUNCTYPE(i32, u32, u32, address, i32, address)(self._receive)

    def _receive(self, group: int, entity: int, values: int, number: int, _user: int | None) -> int:
        for i in range(number):
            self._bytes += ctypes.string_at(values + i * self._stride, self._size)
            self._owners.append(group << 32 | entity)
        return 0

    def take(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return and forget what came: owners [values] (entity group << 32 | entity id), raw values [values] by member."""
        owners, raw = np.array(self._owners, dtype=np.int64), np.frombuffer(bytes(self._bytes), dtype=self._layout)
        self._bytes.clear()
        self._owners.clear()
        # A field without news gives one value without a time.
        news = raw["ts"] > 0
        return self._with_events(owners[news], raw[news])

    def _with_events(self, owners: NDArray[np.int64], raw: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Add a value of 0 or 1 for each bit of the clocks event reasons; a blank stays one."""
        masks = raw["field"] == EVENTS_FIELD
        parts = [raw]
        for number in self._events if masks.any() else ():
            part = raw[masks]
            part["field"] = number
            part["int"] = np.where(part["int"] < INT64_BLANK, part["int"] >> number - FIRST_EVENT_FIELD & 1, part["int"])
            parts.append(part)
        return np.concatenate([owners, *[owners[masks]] * (len(parts) - 1)]), np.concatenate(parts)


def blank_reasons(raw: NDArray[Any]) -> NDArray[np.int8]:
    """Return for each raw value -1, or for a blank why it is one: a key of `REASONS`, or any other number from 0 on."""
    whole, real = np.isin(raw["type"], WHOLE), raw["type"] == REAL
    reasons = np.where(whole | real, -1, 0).astype(np.int8)  # text or a structure where a number is due
    blank = whole & (raw["int"] >= INT64_BLANK)
    reasons[blank] = raw["int"][blank] - INT64_BLANK
    blank = real & ~(raw["float"] < FP64_BLANK)  # NaN too
    reasons[blank] = np.clip(np.nan_to_num(raw["float"][blank] - FP64_BLANK), 0, 15)
    failed = raw["status"] != 0
    reasons[failed] = [STATUS_REASONS.get(status, 0) for status in raw["status"][failed].tolist()]
    return reasons


def numbers(raw: NDArray[Any]) -> NDArray[np.float64]:
    """Return the raw values as numbers in DCGM's units; a blank's is meaningless."""
    return np.where(raw["type"] == REAL, raw["float"], raw["int"])
