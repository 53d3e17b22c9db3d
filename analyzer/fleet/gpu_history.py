"""From the trace of one GPU to what it shows: its stretches of work, their epochs and profiles, and how whole the data are."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.finding import Failure, Finding, JobSpan
from epochcast.analyzer.fleet.quality import TraceQuality
from epochcast.analyzer.fleet.span_finding import HeldStretch, span_of
from epochcast.analyzer.fleet.stretches import PAUSE_S, SHORTEST_S, ActivityBins, BusyStretch, worked
from epochcast.analyzer.fleet.trace_rows import MOST_ROWS, Piece, SpanRows, TraceRows
from epochcast.analyzer.telemetry.gpu_report import GpuDevice
from epochcast.analyzer.traces.csv_text import one_line
from epochcast.detector.signals import PREFERENCE
from epochcast.regressor import Catalog

# Rest before and after a stretch that the detector sees too: it shows what working means. Two stretches do not share any.
_MARGIN_S = PAUSE_S / 2

# Seconds of a bin of activity.
_BIN_S = 1.0


@dataclass(frozen=True)
class Looking:
    """How traces are looked at, the same for all of a run.

    Attributes:
        catalog: names of GPUs.
        since, until: unix seconds; rows from ``since`` up to ``until`` count.
    """

    catalog: Catalog
    since: float = -np.inf
    until: float = np.inf


def finding_of(name: str, version: str, device: GpuDevice, rows: TraceRows, looking: Looking) -> Finding:
    """Analyse one trace, in two goes through it: when the GPU worked, and then each stretch by itself.

    Args:
        name, version: see `Finding`.
        device: which GPU.
        rows: its telemetry.
        looking: at which part of it, and by which catalogue.

    Raises:
        InputError: fewer than two rows, or none that can be used.
    """
    began = time.thread_time()
    quality = TraceQuality()
    spans: list[JobSpan] = []
    for held in stretches_of(name, rows, looking, quality):
        span, problems = span_of(name, device, held, looking.catalog)
        quality.problems += problems
        spans += [] if span is None else [span]
    return Finding(
        trace=name,
        version=version,
        device=device,
        start=quality.first,
        end=quality.last,
        idle_s=quality.idle_s,
        spans=tuple(spans),
        quality=quality.result(rows.late, analysed=bool(spans)),
        cpu_s=time.thread_time() - began,
        held_idle_s=quality.held_idle.seconds,
    )


def stretches_of(name: str, rows: TraceRows, looking: Looking, quality: TraceQuality) -> Iterator[HeldStretch]:
    """Give the rows of each stretch of work that is long enough; ``quality`` counts what is read.

    Raises:
        InputError: fewer than two rows, or none that can be used.
    """
    main = _main_metric(rows)
    activity: ActivityBins | None = None
    for piece in _in_period(rows, looking, [] if main is None else [main]):
        quality.add_times(piece.time)
        if activity is None and quality.step_s is not None:
            activity = ActivityBins(max(_BIN_S, quality.step_s))
        if activity is not None:
            activity.add(piece.time, None if main is None else piece.values[main])
    if activity is None or quality.step_s is None:
        raise InputError(f"{name!r} has {quality.rows} row(s) in the requested time; a trace needs at least 2")
    stretches, quality.idle_s = worked(activity, main, quality.step_s)
    quality.worked = bool(stretches)
    return _held(rows, looking, quality, stretches, main, activity.width_s, quality.step_s)


def _held(
    rows: TraceRows,
    looking: Looking,
    quality: TraceQuality,
    stretches: Sequence[BusyStretch],
    main: str | None,
    width_s: float,
    step_s: float,
) -> Iterator[HeldStretch]:
    long_enough = [stretch for stretch in stretches if stretch.seconds >= SHORTEST_S]
    for stretch, held in _by_stretch(rows, looking, long_enough, quality):
        cut = any(abs(stretch.start - edge) <= 2 * width_s for edge in quality.beginnings)
        yield HeldStretch(stretch, held, main, step_s, cut)


def _main_metric(rows: TraceRows) -> str | None:
    """The metric that represents the GPU's activity: the first of the detector's preference that was ever read."""
    for name in PREFERENCE:
        if name in rows.names and any(not np.isnan(piece.values[name]).all() for piece in rows.pieces([name])):
            return name
    return None


def _in_period(rows: TraceRows, looking: Looking, names: list[str] | None) -> Iterator[Piece]:
    for piece in rows.pieces(names):
        first, last = np.searchsorted(piece.time, [looking.since, looking.until])
        if last - first == piece.time.size:
            yield piece
        elif last > first:
            yield Piece(piece.time[first:last], {name: values[first:last] for name, values in piece.values.items()})


def _by_stretch(
    rows: TraceRows, looking: Looking, stretches: list[BusyStretch], quality: TraceQuality
) -> Iterator[tuple[BusyStretch, SpanRows]]:
    """The rows of each stretch, one stretch after the other; every piece is counted for the quality on the way."""
    waiting = stretches[::-1]
    held: SpanRows | None = None
    for piece in _in_period(rows, looking, None):
        quality.add_readings(piece)
        while waiting:
            stretch = waiting[-1]
            if held is None:
                held = SpanRows(*_range(stretch, alone=len(stretches) == 1, rows=quality.rows))
            held.add(piece)
            if piece.time[-1] < held.end:
                break
            yield waiting.pop(), held
            held = None
    while waiting:  # the last one ends with the trace
        stretch = waiting.pop()
        yield stretch, held or SpanRows(stretch.start, stretch.end, stretch.rows)
        held = None


def _range(stretch: BusyStretch, *, alone: bool, rows: int) -> tuple[float, float, int]:
    """From when to when its rows are looked at [unix s], and how many they are: all of a trace that holds nothing else.

    So the answer is that of `epochcast detect`, which sees all rows.
    """
    if alone and rows <= MOST_ROWS:
        return -np.inf, np.inf, rows
    return stretch.start - _MARGIN_S, stretch.end + _MARGIN_S, stretch.rows


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

    def opened(self) -> AbstractContextManager[tuple[GpuDevice, TraceRows]]:
        """Give the GPU and its rows; InputError or OSError where it cannot be read."""
        ...


def analysed(looking: Looking, batch: Sequence[Trace]) -> list[Finding | Failure]:
    """A finding of each trace, or a failure; one that fails does not stop the others."""
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
        said = f"{trace.name!r} needs more memory than is available; analyse only a part (--from, --to)"
    except OSError as error:
        said = f"{trace.name!r} cannot be read: {one_line(error)}"
    except Exception as error:  # a bug, or a store's own error: the other traces shall not wait for it
        log.warning("%s failed", trace.name, exc_info=error)
        said = f"{trace.name!r} could not be analysed: {type(error).__name__}: {one_line(error)}"
    return Failure(trace.name, trace.version, " ".join(said.split()))
