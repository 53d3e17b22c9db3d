"""Processes for what may take long, much memory, or the process with it: uploaded traces, white-box backends.

A process of its own can be ended, which a thread cannot. They start with the first request (a service without such
requests has none), and pebble starts another in the place of one that died or was ended.
"""

from __future__ import annotations

import logging
import os
import resource
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Literal

from anyio import CapacityLimiter, to_thread
from pebble import ProcessExpired, ProcessFuture, ProcessPool

from epochcast.analyzer.errors import InputError

log = logging.getLogger(__name__)

# Waiting questions per process. More would be answered after their askers have given up.
_WAITING = 4

# For starting a process, which imports what the question needs, and for waiting: what a question may take beyond its own time.
_GRACE_S = 20.0

_ENDS = "the service is stopping; try again once it is back"

# Questions after which a process makes room for a new one: what its libraries have cached goes with it.
_MOST_TASKS = 200


class WorkersBusyError(RuntimeError):
    """All processes are at work and enough wait; one sentence. Status 503."""


class Workers:
    """At most ``count`` processes, each with ``memory_bytes`` of address space and ``seconds`` for one question.

    Attributes:
        restarts: processes that died or took too long so far.
    """

    def __init__(self, count: int, memory_bytes: int, seconds: float) -> None:
        self.restarts = 0
        self._count = count
        self._memory_bytes = memory_bytes
        self._seconds = seconds
        self._room = threading.BoundedSemaphore(count * (1 + _WAITING))
        self._lock = threading.Lock()
        self._stopped = False
        self._pool: ProcessPool | None = None
        self._futures: set[ProcessFuture[Any]] = set()

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args)``, called in a worker process; the calling thread waits.

        The function is one of a module, and arguments and result are pickled: give and return plain values.

        Raises:
            InputError: the function raised a ValueError (its message is shown to the user), took too long, needed more memory
                than a worker has, or ended the process: each in one sentence.
            WorkersBusyError: too many questions wait.
            RuntimeError: the function failed otherwise, which is a bug; its traceback is logged.
        """
        if not self._room.acquire(blocking=False):
            raise WorkersBusyError("all worker processes are busy and other requests are waiting; try again in a few seconds")
        try:
            future = self._scheduled(function, args)
            try:
                outcome, value = future.result(timeout=self._seconds + _GRACE_S)
            except CancelledError:
                raise WorkersBusyError(_ENDS) from None
            except Late:
                # Pebble's own means that the question ran out of its time; ours, that it still waited for a process.
                if not future.done() or future.cancelled():
                    future.cancel()  # type: ignore[no-untyped-call]
                    raise WorkersBusyError("no worker process became free in time; try again in a few seconds") from None
                self.restarts += 1
                raise InputError(f"this takes longer than the limit of {self._seconds:g} s; send something smaller") from None
            except (ProcessExpired, BrokenProcessPool) as error:
                self.restarts += 1
                log.warning("a worker process ended: %s", error)
                raise InputError(
                    "the worker process died on this request; send something smaller, or repair the file"
                ) from None
            finally:
                self._futures.discard(future)
        finally:
            self._room.release()
        return _result(outcome, value, self._memory_bytes)

    async def answer(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what `run` does, without a thread of those that compute."""
        return await to_thread.run_sync(self.run, function, *args, limiter=CapacityLimiter(1))

    def stop(self) -> None:
        """End all processes; what still waits fails, as there are none."""
        with self._lock:
            self._stopped = True
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.stop()  # type: ignore[no-untyped-call]
            for future in list(self._futures):  # which the pool leaves waiting
                future.cancel()  # type: ignore[no-untyped-call]
            pool.join()

    def _scheduled(self, function: Callable[..., Any], args: tuple[Any, ...]) -> ProcessFuture[Any]:
        with self._lock:  # so that ``stop`` sees every question, and none starts a pool behind its back
            if self._stopped:
                raise WorkersBusyError(_ENDS)
            # Pebble gives up a pool whose process ends between two questions, as the kernel's out-of-memory killer may do.
            if self._pool is None or not self._pool.active:
                self._pool = ProcessPool(
                    self._count, _MOST_TASKS, initializer=_confine, initargs=(self._memory_bytes,), context=get_context("spawn")
                )
            future = self._pool.schedule(_guarded, args=(function, args), timeout=self._seconds)
            self._futures.add(future)
            return future


_Outcome = Literal["answer", "refused", "memory", "failed"]


def _guarded(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[_Outcome, Any]:
    """Call it; errors go back as text, since not every exception survives pickling."""
    try:
        return "answer", function(*args)
    except ValueError as error:
        return "refused", str(error)
    except MemoryError:
        return "memory", None
    except Exception as error:
        # pyarrow's and torch's own errors where an allocation failed.
        if "alloc" in str(error).lower() or "out of memory" in str(error).lower():
            return "memory", None
        return "failed", traceback.format_exc()


def _result(outcome: _Outcome, value: Any, memory_bytes: int) -> Any:
    if outcome == "refused":
        raise InputError(" ".join(str(value).split()))
    if outcome == "memory":
        raise InputError(f"this needs more memory than the limit of {memory_bytes / 2**30:.3g} GiB; send something smaller")
    if outcome == "failed":
        log.error("a request failed in a worker process:\n%s", value)
        raise RuntimeError("a request failed in a worker process; the log has its traceback")
    return value


def _confine(memory_bytes: int) -> None:
    # Read by NumPy and torch when the first question imports them: a thread for each core of a large host would take address
    # space of its own, and the processes share the cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
