"""Workers on this machine: processes, each with one thread of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from multiprocessing import get_context
from typing import Any, TypeVar

from pebble import ProcessFuture, ProcessPool

T = TypeVar("T")
R = TypeVar("R")

# Read by NumPy's libraries when they are loaded: processes that start a thread for each core take turns at them.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# Batches after which a process makes room for a new one: what its libraries have cached goes with it.
_MOST_BATCHES = 250


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class LocalProcesses:
    """So many processes; see `Workers`. One that dies or is late is replaced, and only its batch fails."""

    def __init__(self, count: int) -> None:
        """Start them when the first batch comes."""
        self.slots = count
        self._pool: ProcessPool | None = None
        self._asked: set[ProcessFuture[Any]] = set()

    def submit(self, function: Callable[[Sequence[T]], R], batch: Sequence[T], seconds: float) -> Future[R]:
        """See `Workers`."""
        self.check()
        if self._pool is None:
            self._pool = ProcessPool(
                self.slots, _MOST_BATCHES, initializer=_begin, initargs=(os.getpid(),), context=get_context("spawn")
            )
        future = self._pool.schedule(function, args=(batch,), timeout=seconds)
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        return future

    def check(self) -> None:
        """See `Workers`. Pebble gives up a pool whose process ends between two batches, as the kernel's killer may do."""
        if self._pool is not None and not self._pool.active:
            self.close(at_once=True)

    def close(self, *, at_once: bool) -> None:
        """See `Workers`."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        (pool.stop if at_once else pool.close)()  # type: ignore[no-untyped-call]
        for future in list(self._asked) if at_once else ():  # which the pool leaves waiting
            if future.cancel():  # type: ignore[no-untyped-call]
                future.set_running_or_notify_cancel()  # type: ignore[no-untyped-call]
        pool.join()


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the whole group; the parent ends its workers
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: where the parent is killed, nobody else would end them
        if os.getppid() != parent:
            os._exit(1)
    for name in _THREADS:
        os.environ[name] = "1"
