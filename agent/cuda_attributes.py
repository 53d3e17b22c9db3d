"""Device attributes from the CUDA driver, in a process of its own: ``python -m epochcast.agent.cuda_attributes``.

``cuInit`` opens the driver's memory manager and keeps it open until the process ends, so it is not for a daemon. No context
is made and no memory of a GPU is taken. Prints ``{uuid: {name: value}}`` as JSON, in base units, under the names of the GPU
catalogue; exits 2 with one sentence where the driver is missing or refuses.
"""

import contextlib
import ctypes
import json
import os
import sys
import uuid
from typing import Any

from epochcast.common.errors import InputError

LIBRARY = "libcuda.so.1"
SUCCESS = 0
NICENESS = 10
KHZ = 1e3
COMPUTE_CAPABILITY_MAJOR = 75
COMPUTE_CAPABILITY_MINOR = 76
PCI_BUS_ID_LENGTH = 32

# CUdevice_attribute of cuda.h: name → (number, factor to base units).
ATTRIBUTES = {
    "sm_count": (16, 1),  # MULTIPROCESSOR_COUNT
    "boost_clock": (13, KHZ),  # CLOCK_RATE, kHz
    "memory_clock": (36, KHZ),  # MEMORY_CLOCK_RATE, kHz
    "memory_bus_width": (37, 1),  # GLOBAL_MEMORY_BUS_WIDTH, bits
    "l2_cache": (38, 1),  # L2_CACHE_SIZE, bytes
    "max_threads_per_sm": (39, 1),  # MAX_THREADS_PER_MULTIPROCESSOR
    "copy_engines": (40, 1),  # ASYNC_ENGINE_COUNT
    "shared_memory_per_sm": (81, 1),  # MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, bytes
    "fp32_to_fp64_ratio": (87, 1),  # SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO
    "shared_memory_per_block": (97, 1),  # MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, bytes
    "max_blocks_per_sm": (106, 1),  # MAX_BLOCKS_PER_MULTIPROCESSOR
}


class DriverError(Exception):
    """A call that the CUDA driver refused."""


class Driver:
    """The few calls of the CUDA driver API that need no context."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise InputError(f"the CUDA driver is missing ({error}); install the NVIDIA driver's {LIBRARY}") from error
        try:
            self._call("cuInit", 0)
            count = ctypes.c_int()
            self._call("cuDeviceGetCount", ctypes.byref(count))
        except DriverError as error:
            raise InputError(f"the CUDA driver does not start: {error}; check whether nvidia-smi works") from error
        self.count = count.value

    def attributes(self, index: int) -> tuple[str, dict[str, float | int | str]]:
        """Return the UUID of a device and its attributes from the driver; raise DriverError when it does not answer."""
        device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(device), index)
        identity = (ctypes.c_ubyte * 16)()
        # Where the GPU is partitioned, CUDA shows one instance of it, and this version of the call gives the instance's UUID.
        self._call("cuDeviceGetUuid_v2", identity, device)
        bus_id = ctypes.create_string_buffer(PCI_BUS_ID_LENGTH)
        self._call("cuDeviceGetPCIBusId", bus_id, len(bus_id), device)
        memory = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
        facts: dict[str, float | int | str] = {"pci_bus_id": _text(bus_id), "global_memory": memory.value}
        major = self._attribute(device, COMPUTE_CAPABILITY_MAJOR)
        if major:
            facts["compute_capability"] = f"{major}.{self._attribute(device, COMPUTE_CAPABILITY_MINOR)}"
        for name, (number, factor) in ATTRIBUTES.items():
            value = self._attribute(device, number)
            if value:
                facts[name] = value * factor
        return f"GPU-{uuid.UUID(bytes=bytes(identity))}", facts

    def _attribute(self, device: ctypes.c_int, number: int) -> int:
        """Return an attribute, 0 where this driver does not know it; drivers themselves say 0 for "not known" too."""
        value = ctypes.c_int()
        try:
            self._call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        except DriverError:
            return 0
        return value.value

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            code = getattr(self._library, name)(*arguments)
        except AttributeError:
            raise DriverError(f"{LIBRARY} has no {name}: the driver is too old") from None
        if code != SUCCESS:
            raise DriverError(f"{name} failed with {self._error_text(code)}")

    def _error_text(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(code, ctypes.byref(text))
        return f"CUDA error {code}" + (f" ({_text(text)})" if text.value else "")


def _text(buffer: Any) -> str:
    return bytes(buffer.value).decode(errors="replace")


def main() -> int:
    """Print the attributes of all devices that answer; return the exit status."""
    with contextlib.suppress(OSError):  # the agent's systemd unit is nice already, and forbids more
        os.nice(NICENESS)
    try:
        driver = Driver()
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    answers = {}
    for index in range(driver.count):
        try:
            identity, facts = driver.attributes(index)
        except DriverError as error:
            sys.stderr.write(f"CUDA device {index} is skipped: {error}\n")
            continue
        answers[identity] = facts
    json.dump(answers, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
