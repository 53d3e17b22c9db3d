"""Many traces at once: batches go to workers, results come back as they are done; processes here, or a Dask cluster anywhere.

Both are executors in the sense of ``concurrent.futures``; what is done with them is written once. A batch whose worker died, or
took too long, is done again one trace at a time, so that only the trace that is at fault fails. A worker also dies where no
trace is at fault: of the kernel's killer, or with its machine. So a trace that was alone with its worker is tried again, too.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from pebble import ProcessFuture, ProcessPool

T = TypeVar("T")
R = TypeVar("R")

# Seconds between two looks at whether there are still workers.
_LOOK_S = 1.0

# Batches in flight for each that can be worked on: a worker shall not wait for its next one.
_IN_FLIGHT = 2

# Workers that may be lost with a trace, those of its batch among them, before the trace counts as at fault.
_MOST_LOSSES = 3

# Read by NumPy's libraries when they are loaded: processes that start a thread for each core take turns at them.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

# Batches after which a process makes room for a new one: what its libraries have cached goes with it.
_MOST_BATCHES = 250


class FleetError(ConnectionError):
    """The workers are gone; one sentence. What was done is kept."""


class Workers(Protocol):
    """Where batches are worked on."""

    @property
    def slots(self) -> int:
        """Batches that it can work on at once, now."""
        ...

    def submit(self, function: Callable[[Sequence[T]], R], batch: Sequence[T], seconds: float) -> Future[R]:
        """Work on a batch, for so many seconds at most; a future whose exception says that its worker died or was late."""
        ...

    def check(self) -> None:
        """Look after the workers: a future that nobody works on any more is cancelled.

        Raises:
            FleetError: there is nobody left to work.
        """
        ...

    def close(self, *, at_once: bool) -> None:
        """Let go of the workers; ``at_once``: though they work."""
        ...


def worked_on(
    batches: Iterable[Sequence[T]],
    function: Callable[[Sequence[T]], R],
    workers: Workers,
    *,
    seconds_of: Callable[[T], float],
    failed: Callable[[T, str], R],
) -> Iterator[R]:
    """Give ``function(batch)`` of each batch as it is done; few batches are in flight at any moment.

    Args:
        batches: taken as there is room for them.
        function: of a module, of values that can be pickled; it fails of itself for no trace.
        workers: to work on them.
        seconds_of: how long one trace may take.
        failed: the result of a trace that ended its worker, and what is said of it.

    Raises:
        FleetError: there is nobody left to work.
    """
    fresh, again = ((batch, 0) for batch in batches), deque[tuple[Sequence[T], int]]()
    last = deque[tuple[Sequence[T], int]]()  # tries
    pending: dict[Future[R], tuple[Sequence[T], int]] = {}  # each batch with the number of workers that were lost with it
    while True:
        while len(pending) < _IN_FLIGHT * max(1, workers.slots):
            waiting = again.popleft() if again else next(fresh, None)
            if waiting is None and last and not pending:  # alone, so that a trace next to it is not blamed for its end
                waiting = last.popleft()
            if waiting is None:
                break
            pending[workers.submit(function, waiting[0], sum(map(seconds_of, waiting[0])))] = waiting
        if not pending:
            return
        done, _ = wait(pending, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
        if not done:
            workers.check()
        for future in done:
            batch, lost = pending.pop(future)
            error = CancelledError("its worker disappeared") if future.cancelled() else future.exception()
            if error is None:
                yield future.result()
            elif isinstance(error, ImportError | AttributeError) or type(error) is RuntimeError:  # the last as Dask says it
                raise FleetError(
                    f"a worker cannot do this work ({type(error).__name__}: {_first_sentence(error)}); install the same "
                    "version of Epochcast on each machine, with the extra `fleet`, and run the same command again"
                )
            elif len(batch) == 1 and (isinstance(error, TimeoutError) or lost + 1 >= _MOST_LOSSES):
                yield failed(batch[0], _why(error))
            else:
                (last if lost + 2 >= _MOST_LOSSES else again).extend(([item], lost + 1) for item in batch)


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long; check its size, or analyse only a part (--from, --to)"
    return (
        f"{_MOST_LOSSES} processes that worked on it ended, the last by {type(error).__name__}: {_first_sentence(error)}; "
        "check the file and the workers' memory"
    )


def _first_sentence(error: BaseException) -> str:
    return " ".join(str(error).split()).partition(". ")[0]


def in_batches(traces: Iterable[T], size_of: Callable[[T], int], *, most: int, most_bytes: int) -> Iterator[list[T]]:
    """Traces that follow each other, together as long as they are few and small."""
    batch: list[T] = []
    held = 0
    for trace in traces:
        size = size_of(trace)
        if batch and (len(batch) >= most or held + size > most_bytes):
            yield batch
            batch, held = [], 0
        batch.append(trace)
        held += size
    if batch:
        yield batch


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class LocalProcesses:
    """So many processes; see `Workers`. One that dies or is late is replaced, and only its batch is lost."""

    def __init__(self, count: int) -> None:
        """Start them when the first batch comes."""
        self.slots = count
        self._pool: ProcessPool | None = None
        self._futures: set[ProcessFuture[Any]] = set()

    def submit(self, function: Callable[[Sequence[T]], R], batch: Sequence[T], seconds: float) -> Future[R]:
        """See `Workers`."""
        self.check()
        if self._pool is None:
            self._pool = ProcessPool(
                self.slots, _MOST_BATCHES, initializer=_begin, initargs=(os.getpid(),), context=get_context("spawn")
            )
        future = self._pool.schedule(function, args=(batch,), timeout=seconds)
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
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
        for future in list(self._futures) if at_once else ():  # which the pool leaves waiting
            if future.cancel():  # type: ignore[no-untyped-call]
                future.set_running_or_notify_cancel()  # type: ignore[no-untyped-call]
        pool.join()


def _begin(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal signals the whole group; the parent ends its workers
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: where the parent is killed, nobody else would end them
        if os.getppid() != parent:
            os._exit(1)
    for name in _THREADS:
        os.environ[name] = "1"
