"""Workers of a Dask cluster, wherever they are: they need epochcast, and the traces under the same addresses."""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.execution import FleetError, LocalProcesses

T = TypeVar("T")
R = TypeVar("R")

_CONNECT_S = 15.0
# For workers to come (again): a cluster may be starting, or replace those that were lost.
_NO_WORKERS_S = 120.0
_NO_SCHEDULER_S = 20.0

_POLL_S = 3.0  # between two questions for the workers

# After so long without work a process of a Dask worker ends: a cluster may outlive the run by months.
_IDLE_S = 60.0


class _ProcessBeside:
    """The process in which a thread of a Dask worker has its batches done: it can be ended, and may die by itself."""

    def __init__(self) -> None:
        # Dask's nanny starts its workers as daemons, which may have no processes of their own.
        multiprocessing.current_process().daemon = False
        self._processes, self._in_use = LocalProcesses(1), threading.Lock()
        self._ending = threading.Timer(_IDLE_S, self._end)

    def work(self, function: Callable[[Sequence[T]], R], batch: Sequence[T], seconds: float) -> R:
        with self._in_use:
            self._ending.cancel()
            try:
                return self._processes.submit(function, batch, seconds).result()
            finally:
                self._ending = threading.Timer(_IDLE_S, self._end)
                self._ending.daemon = True
                self._ending.start()

    def _end(self) -> None:
        with self._in_use:
            self._processes.close(at_once=False)


_of_thread = threading.local()


def _beside(function: Callable[[Sequence[T]], R], batch: Sequence[T], seconds: float) -> R:
    """Have a batch done next to the Dask worker that this runs in; TimeoutError where it is late."""
    if not hasattr(_of_thread, "process"):
        _of_thread.process = _ProcessBeside()
    done: R = _of_thread.process.work(function, batch, seconds)
    return done


class DaskCluster:
    """The cluster of a scheduler; see `Workers`.

    A worker that is lost is made up for by the others: Dask gives them its batches, and gives up a batch that lost several.
    Dask ends nothing that takes long, and a worker that dies takes its other batches along. So each thread of a worker has
    its batches done by one of `LocalProcesses`, as a run without Dask does.
    """

    def __init__(self, scheduler: str) -> None:
        """Connect; InputError if nobody answers at this address (``tcp://host:port``), or it is none."""
        from distributed import Client
        from distributed.comm import get_address_host_port

        self._address = scheduler
        # What it logs of lost connections is said once, by `check`.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        try:
            get_address_host_port(scheduler)  # first: a client of an address that is none waits 30 s, and ends with a traceback
            self._client = Client(scheduler, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TypeError, TimeoutError) as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise InputError(
                f"no Dask scheduler answers at {scheduler!r} ({said}); start one with `dask scheduler`, and name it as tcp://host:8786"
            ) from error
        self._executor: Any = self._client.get_executor(pure=False)
        self._slots, self._polled_at = 0, -math.inf
        self._silent_since: float | None = None
        self._alone_since: float | None = None

    @property
    def slots(self) -> int:
        """See `Workers`; of what the workers say it is a few seconds old."""
        now = time.monotonic()
        if now - self._polled_at > _POLL_S and self._connected:
            self._polled_at = now
            with contextlib.suppress(OSError, TimeoutError):  # `check` finds out whether it is gone
                workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
                self._slots = sum(worker["nthreads"] for worker in workers)
        return self._slots

    def submit(self, function: Callable[[Sequence[T]], R], batch: Sequence[T], seconds: float) -> Future[R]:
        """See `Workers`; waits for a scheduler that is away for a moment."""
        while not self._connected:
            self.check()
            time.sleep(0.2)
        future: Future[R] = self._executor.submit(_beside, function, batch, seconds)
        return future

    def check(self) -> None:
        """See `Workers`."""
        now = time.monotonic()
        self._silent_since = None if self._connected else self._silent_since or now
        if self._client.status == "closed" or (self._silent_since and now - self._silent_since > _NO_SCHEDULER_S):
            raise FleetError(
                f"the Dask scheduler at {self._address} is gone; finished results are kept: start it, and run the same "
                "command again"
            )
        self._alone_since = None if self.slots or not self._connected else self._alone_since or now
        if self._alone_since and now - self._alone_since > _NO_WORKERS_S:
            raise FleetError(
                f"the Dask scheduler at {self._address} has had no worker for {_NO_WORKERS_S:.0f} s; "
                f"start some with `dask worker {self._address}`, and run the same command again"
            )

    def close(self, *, at_once: bool) -> None:
        """See `Workers`."""
        with contextlib.suppress(Exception):  # a client whose scheduler is gone has an error of its own for each call
            self._executor.shutdown(wait=False)
            self._client.close(timeout=5)

    @property
    def _connected(self) -> bool:
        return bool(self._client.status == "running")
