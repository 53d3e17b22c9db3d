"""Xid errors: what the driver reports of its own accord about a GPU in trouble."""

import logging
from collections import Counter
from ctypes import byref, c_void_p, cast

import pynvml

from epochcast.agent.sources.nvml_library import DriverError, Handle, call, function

log = logging.getLogger(__name__)


class XidEvents:
    """Counts Xid errors by GPU, and logs each, from an ``nvmlEventSet`` that is polled without waiting.

    ``counts``: errors so far by NVML index of the GPU; ``last``: number of the last one, 0 where there was none.
    """

    def __init__(self, counts: Counter[int], last: Counter[int]) -> None:
        self.counts = counts
        self.last = last
        self._wait = function("nvmlEventSetWait_v2")
        self._set = call(pynvml.nvmlEventSetCreate)
        self._event = pynvml.c_nvmlEventData_t()
        self._arguments = (self._set, byref(self._event), 0)
        self._watched: dict[int | None, int] = {}

    def watch(self, index: int, handle: Handle) -> None:
        """Count the errors of the GPU at NVML's ``index`` from now on; raises DriverError where the driver reports none."""
        call(pynvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
        self._watched[cast(handle, c_void_p).value] = index

    def poll(self) -> None:
        """Take in what was reported since the last call."""
        while not (code := self._wait(*self._arguments)):
            index = self._watched.get(cast(self._event.device, c_void_p).value)
            if index is None:
                continue
            self.counts[index] += 1
            self.last[index] = self._event.eventData
            log.error("GPU %d: the driver reports Xid %d", index, self._event.eventData)
        if code != pynvml.NVML_ERROR_TIMEOUT:
            log.debug("%s", DriverError("nvmlEventSetWait_v2", code))

    def close(self) -> None:
        """Give the event set back."""
        try:
            call(pynvml.nvmlEventSetFree, self._set)
        except DriverError as error:
            log.debug("%s", error)
