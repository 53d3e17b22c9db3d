"""What a worker does: opens the traces of a batch one after the other, and says what each tells, or why it tells nothing."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from ..csv_text import one_line
from ..telemetry.gpu_report import Device
from .finding import Failure, Finding
from .gpu_history import Looking, finding_of
from .trace_rows import TraceRows

log = logging.getLogger(__name__)


class Trace(Protocol):
    """The telemetry of one GPU, to be opened by a worker: it is pickled on its way there.

    Attributes:
        name, version: see `Finding`.
        size: bytes, about.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def version(self) -> str: ...  # noqa: D102
    @property
    def size(self) -> int: ...  # noqa: D102

    def opened(self) -> AbstractContextManager[tuple[Device, TraceRows]]:
        """Give the GPU and its rows; InputError or OSError where it cannot be read."""
        ...


def analysed(looking: Looking, batch: Sequence[Trace]) -> list[Finding | Failure]:
    """A finding of each trace, or a failure: whatever is wrong with one is not the others' fault."""
    return [_analysed(trace, looking) for trace in batch]


def _analysed(trace: Trace, looking: Looking) -> Finding | Failure:
    try:
        with trace.opened() as (device, rows):
            return finding_of(trace.name, trace.version, device, rows, looking)
    except FileNotFoundError:
        said = f"{trace.name!r} is no longer there; run the analysis again"
    except ValueError as error:  # the InputError of any room: it names the trace itself
        said = str(error)
    except MemoryError:
        said = f"{trace.name!r} needs more memory than there is; analyse a part of it (--from, --to)"
    except OSError as error:
        said = f"{trace.name!r} cannot be read: {one_line(error)}"
    except Exception as error:  # a bug, or a store's own error: the other traces shall not wait for it
        log.warning("%s failed", trace.name, exc_info=error)
        said = f"{trace.name!r} could not be analysed: {type(error).__name__}: {one_line(error)}"
    return Failure(trace.name, trace.version, " ".join(said.split()))
