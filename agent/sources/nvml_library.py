"""The driver's library as the sources call it: functions taken once, errors sorted by what they mean.

Functions and error codes are those of ``nvml.h``. What is called at every tick goes through `function`, with arguments made
once: pynvml's wrappers make theirs again at each call. What is called now and then goes through `call`.
"""

import _ctypes
from collections.abc import Callable, Mapping
from ctypes import sizeof
from struct import calcsize
from typing import Any

import pynvml

# The GPU itself does not answer, or the driver as a whole.
GONE = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
        pynvml.NVML_ERROR_GPU_NOT_FOUND,
    }
)
# There is no value yet.
LATER = frozenset({pynvml.NVML_ERROR_NO_DATA, pynvml.NVML_ERROR_NOT_READY})
# The GPU answers: it has no such value (now). Any other error may concern one call or the whole GPU.
ANSWERS = LATER | {
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_DEPRECATED,
}
# Of several answers of one call, one of these at least is a GPU's that is there.
SOME_ANSWER = ANSWERS | {pynvml.NVML_SUCCESS}

# What the value union holds by nvmlValueType_t, as a format of the struct module.
VALUE_FORMATS = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "d",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "I",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "Q",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "Q",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "q",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "i",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "H",
}

Handle = Any
Function = Callable[..., int]


class DriverError(Exception):
    """NVML refused: ``what`` was requested, ``code`` is its nvmlReturn_t."""

    def __init__(self, what: str, code: int) -> None:
        self.what = what
        self.code = code

    def __str__(self) -> str:
        return f"{self.what}: {self.reason}"

    @property
    def reason(self) -> str:
        """NVML's words for the code."""
        return str(pynvml.NVMLError(self.code))

    @property
    def gone(self) -> bool:
        """Whether the GPU or the driver as a whole does not answer."""
        return self.code in GONE


def initialise() -> None:
    """Load and open the library; raises DriverError.

    A library that does not fit the driver is let go of: loaded once, it would hide the one that is installed later.
    """
    try:
        call(pynvml.nvmlInit)
    except DriverError as error:
        if error.code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            library, pynvml.nvmlLib = pynvml.nvmlLib, None
            pynvml._nvmlGetFunctionPointer_cache.clear()
            _ctypes.dlclose(library._handle)
        raise


def function(name: str) -> Function:
    """Return a function of the loaded library; raises DriverError where this driver is too old to have it."""
    try:
        # By item: a pointer of its own, where the attribute is shared with pynvml's callers.
        symbol: Function = pynvml.nvmlLib[name]
    except AttributeError as error:
        raise DriverError(name, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND) from error
    return symbol


def member(structure: Any, name: str) -> Any:
    """Return one number of a ctypes structure, on the same memory: attributes of pynvml's structures are ten times as slow."""
    kind = dict(structure._fields_)[name]
    return kind.from_buffer(structure, getattr(type(structure), name).offset)


def formatted(kind: Any, wanted: Mapping[str, str]) -> str:
    """Return the format, for the struct module, of some members of a ctypes structure, at their true places.

    ``wanted``: format of each member by name, in the structure's order.
    """
    layout, end = "", 0
    for name, letter in wanted.items():
        offset = getattr(kind, name).offset
        layout += f"{offset - end}x{letter}"
        end = offset + calcsize(f"={letter}")
    return f"{layout}{sizeof(kind) - end}x"


def call(wrapper: Callable[..., Any], *arguments: Any) -> Any:
    """Call one of pynvml's functions; its errors become `DriverError` here and nowhere else.

    Text that is not UTF-8 comes with replacement characters (pynvml fails there).
    """
    try:
        return wrapper(*arguments)
    except pynvml.NVMLError as error:
        raise DriverError(wrapper.__name__, error.value) from error
    except UnicodeDecodeError as error:
        return bytes(error.object).decode(errors="replace")
    except pynvml.NVMLLibraryMismatchError as error:  # not an NVMLError: a symbol this old driver lacks
        raise DriverError(wrapper.__name__, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND) from error
