"""Xid errors: what the driver reports of its own accord about a GPU in trouble."""

import logging
from ctypes import byref, c_void_p, cast

import pynvml

from epochcast.agent.sources.nvml_library import DriverError, Handle, call, function

log = logging.getLogger(__name__)


class XidEvents:
    """Notes Xid errors in ``xids`` (as of `Source.take_xids`), from an ``nvmlEventSet`` that is polled without waiting."""

    def __init__(self, xids: list[tuple[int, int]]) -> None:
        self._xids = xids
        self._wait = function("nvmlEventSetWait_v2")
        self._set = call(pynvml.nvmlEventSetCreate)
        self._event = pynvml.c_nvmlEventData_t()
        self._arguments = (self._set, byref(self._event), 0)
        self._watched: dict[int | None, int] = {}

    def watch(self, position: int, handle: Handle) -> None:
        """Note the errors of the GPU at this position from now on; raises DriverError where the driver reports none."""
        call(pynvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
        self._watched[cast(handle, c_void_p).value] = position

    def poll(self) -> None:
        """Take in what was reported since the last call."""
        while not (code := self._wait(*self._arguments)):
            position = self._watched.get(cast(self._event.device, c_void_p).value)
            if position is not None:
                self._xids.append((position, self._event.eventData))
        if code != pynvml.NVML_ERROR_TIMEOUT:
            log.debug("%s", DriverError("nvmlEventSetWait_v2", code))

    def close(self) -> None:
        """Give the event set back."""
        try:
            call(pynvml.nvmlEventSetFree, self._set)
        except DriverError as error:
            log.debug("%s", error)
