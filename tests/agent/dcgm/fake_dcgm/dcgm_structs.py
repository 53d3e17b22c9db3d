# ruff: noqa: N801
"""Stand-in for DCGM's module of this name: constants, errors, and structures laid out as in DCGM's header."""

from ctypes import Structure, Union, c_byte, c_char, c_double, c_int, c_int64, c_short, c_uint, c_uint32, c_ushort
from typing import Any

DCGM_ST_OK = 0
DCGM_ST_NOT_SUPPORTED = -6
DCGM_ST_UNKNOWN_FIELD = -13
DCGM_ST_NO_DATA = -14
DCGM_ST_NO_PERMISSION = -17
DCGM_ST_CONNECTION_NOT_VALID = -21
DCGM_ST_LIBRARY_NOT_FOUND = -25
DCGM_ST_DUPLICATE_KEY = -26
DCGM_ST_REQUIRES_ROOT = -29
DCGM_ST_MODULE_NOT_LOADED = -33
DCGM_ST_PROFILING_NOT_SUPPORTED = -36
DCGM_GROUP_DEFAULT = 0
DCGM_GROUP_EMPTY = 1
DCGM_GROUP_DEFAULT_INSTANCES = 3
DCGM_FV_FLAG_LIVE_DATA = 1


class DCGMError(Exception):
    def __init__(self, value: int) -> None:
        self.value = value

    def __str__(self) -> str:
        return f"DCGM error {self.value}"


class c_dcgmFieldValue_v1_value(Union):
    _fields_ = (("i64", c_int64), ("dbl", c_double), ("str", c_char * 256), ("blob", c_byte * 4096))


class c_dcgmFieldValue_v1(Structure):
    _fields_ = (
        ("version", c_uint),
        ("fieldId", c_ushort),
        ("fieldType", c_short),
        ("status", c_int),
        ("ts", c_int64),
        ("value", c_dcgmFieldValue_v1_value),
    )


class c_dcgmGroupEntityPair_t(Structure):
    _fields_ = (("entityGroupId", c_uint32), ("entityId", c_uint32))


def fill(field: int, ts: int, status: int, value: Any) -> Any:
    """A field value: whole numbers as 'i', others as 'd', text as 's'; None leaves it empty."""
    item = c_dcgmFieldValue_v1(fieldId=field, status=status, ts=ts)
    if isinstance(value, str):
        item.fieldType, item.value.str = ord("s"), value.encode()
    elif isinstance(value, float):
        item.fieldType, item.value.dbl = ord("d"), value
    else:
        item.fieldType, item.value.i64 = ord("i"), value or 0
    return item
