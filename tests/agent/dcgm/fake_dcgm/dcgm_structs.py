# ruff: noqa: N801, N802
"""Stand-in for DCGM's module of this name: constants, errors, and structures laid out as in DCGM's header."""

from ctypes import Structure, Union, c_byte, c_char, c_double, c_int, c_int64, c_short, c_uint, c_uint32, c_ushort
from typing import Any

DCGM_ST_OK = 0
DCGM_ST_BADPARAM = -1
DCGM_ST_NOT_SUPPORTED = -6
DCGM_ST_TIMEOUT = -11
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
    """``DCGMError(value)`` gives an instance of the class for that value, as in ``DCGMError_Badparam``."""

    _classes: dict[int, type] = {}  # noqa: RUF012
    value: int

    def __new__(cls, value: int) -> "DCGMError":
        error = Exception.__new__(cls._classes.get(value, cls))
        error.value = value
        return error

    def __str__(self) -> str:
        return f"DCGM error {self.value}"


def dcgmExceptionClass(value: int) -> type:
    return DCGMError._classes[value]


for _name, _value in [item for item in globals().items() if item[0].startswith("DCGM_ST_")]:
    _class = "DCGMError_" + "".join(word.capitalize() for word in _name.removeprefix("DCGM_ST_").split("_"))
    globals()[_class] = DCGMError._classes[_value] = type(_class, (DCGMError,), {})


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


class c_dcgmFieldValue_v2(Structure):
    _fields_ = (
        ("version", c_uint),
        ("entityGroupId", c_uint),
        ("entityId", c_uint),
        ("fieldId", c_ushort),
        ("fieldType", c_short),
        ("status", c_int),
        ("unused", c_uint),
        ("ts", c_int64),
        ("value", c_dcgmFieldValue_v1_value),
    )


class c_dcgmGroupEntityPair_t(Structure):
    _fields_ = (("entityGroupId", c_uint32), ("entityId", c_uint32))


class c_dcgmMigEntityInfo_t(Structure):
    _fields_ = (
        ("gpuUuid", c_char * 128),
        ("nvmlGpuIndex", c_uint),
        ("nvmlInstanceId", c_uint),
        ("nvmlComputeInstanceId", c_uint),
        ("nvmlMigProfileId", c_uint),
        ("nvmlProfileSlices", c_uint),
    )


class c_dcgmMigHierarchyInfo_v2(Structure):
    _fields_ = (("entity", c_dcgmGroupEntityPair_t), ("parent", c_dcgmGroupEntityPair_t), ("info", c_dcgmMigEntityInfo_t))


class c_dcgmMigHierarchy_v2(Structure):
    _fields_ = (("version", c_uint), ("count", c_uint), ("entityList", c_dcgmMigHierarchyInfo_v2 * 448))


class c_dcgmDeviceIdentifiers_v1(Structure):
    _fields_ = (
        ("version", c_uint),
        ("brandName", c_char * 256),
        ("deviceName", c_char * 256),
        ("pciBusId", c_char * 256),
        ("serial", c_char * 256),
        ("uuid", c_char * 256),
        ("vbios", c_char * 256),
        ("inforomImageVersion", c_char * 256),
        ("pciDeviceId", c_uint32),
        ("pciSubSystemId", c_uint32),
        ("driverVersion", c_char * 256),
        ("virtualizationMode", c_uint32),
    )


class c_dcgmDeviceAttributes_v3(Structure):
    _fields_ = (("version", c_uint), ("identifiers", c_dcgmDeviceIdentifiers_v1))  # and much that the agent does not use


class c_dcgmProfMetricGroupInfo_v2(Structure):
    _fields_ = (("majorId", c_ushort), ("minorId", c_ushort), ("numFieldIds", c_uint32), ("fieldIds", c_ushort * 64))


class c_dcgmProfGetMetricGroups_v3(Structure):
    _fields_ = (
        ("version", c_uint32),
        ("unused", c_uint32),
        ("gpuId", c_uint32),
        ("numMetricGroups", c_uint32),
        ("metricGroups", c_dcgmProfMetricGroupInfo_v2 * 10),
    )


def fill(kind: type, field: int, ts: int, status: int, value: Any) -> Any:
    """A field value of this structure: whole numbers as 'i', others as 'd', text as 's'; None leaves it empty."""
    item = kind(fieldId=field, status=status, ts=ts)
    if isinstance(value, str):
        item.fieldType, item.value.str = ord("s"), value.encode()
    elif isinstance(value, float):
        item.fieldType, item.value.dbl = ord("d"), value
    else:
        item.fieldType, item.value.i64 = ord("i"), value or 0
    return item
