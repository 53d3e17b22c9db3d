"""The whole analysis: what is there, what of it was done before, the rest on workers, and then tables and a report."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..answers.advisor import Advisor
from ..errors import InputError
from .answers_of_fleet import write_answers
from .execution import Workers, in_batches, worked_on
from .finding import Failure, Finding
from .findings_store import FindingsStore
from .gpu_history import Looking
from .one_trace import Trace, analysed
from .result_tables import write_tables

log = logging.getLogger(__name__)

# Traces that go to a worker together: a few seconds of work, and what a killed run loses.
_MOST_TRACES, _MOST_BYTES = 4, 2**24

# Seconds that one trace may take: a hundred times what ten minutes of telemetry do, and more for a large file.
_SECONDS, _SECONDS_PER_BYTE = 300.0, 2e-5


@dataclass
class Progress:
    """How far an analysis is.

    Attributes:
        traces: that there are.
        taken_over: found by an earlier run.
        done, failed: of this one.
        gpu_s: GPU-seconds of telemetry analysed by this one.
        seconds: since it began to analyse.
        jobs: predicted so far.
    """

    traces: int = 0
    taken_over: int = 0
    done: int = 0
    failed: int = 0
    gpu_s: float = 0.0
    seconds: float = 0.0
    jobs: int = 0


def analyze(
    traces: Iterable[Trace],
    out: Path,
    looking: Looking,
    workers: Workers,
    advisor: Advisor,
    *,
    what: str,
    show: Callable[[Progress], object] = lambda progress: None,
) -> dict[str, Any]:
    """Analyse each trace that was not before, and write all results.

    Args:
        traces: what there is.
        out: folder of the results; nobody else writes into it (`findings_store.alone_in`).
        looking: how they are looked at.
        workers: who does it.
        advisor: predicts and recommends.
        what: was analysed, for people.
        show: told of the progress, often.

    Returns:
        The content of ``summary.json``, with `Progress` as ``run`` beside it.

    Raises:
        InputError: there is no trace, or ``out`` cannot be written.
        FleetError: there is nobody left to work.
    """
    store, progress = FindingsStore(out), Progress()
    there = {trace.name: trace for trace in traces}
    if not there:
        raise InputError(f"there is no trace in {what}; name a folder with Parquet or CSV files of telemetry")
    store.keep(there)
    waiting = [trace for name, trace in sorted(there.items()) if store.version(name) != trace.version]
    progress.traces, progress.taken_over = len(there), len(there) - len(waiting)
    show(progress)
    began = time.monotonic()
    batches = in_batches(waiting, lambda trace: trace.size, most=_MOST_TRACES, most_bytes=_MOST_BYTES)
    for results in worked_on(batches, partial(analysed, looking), workers, seconds_of=_seconds, failed=_failed):
        store.add(results)
        progress.done += len(results)
        progress.failed += sum(isinstance(one, Failure) for one in results)
        progress.gpu_s += sum(one.seconds for one in results if isinstance(one, Finding))
        progress.seconds = time.monotonic() - began
        show(progress)
    write_tables(store.findings(), store.failures(), looking.catalog, out)

    def advance(jobs: int) -> None:
        progress.jobs += jobs
        show(progress)

    told = write_answers(store.findings(), store.failures(), advisor, out, analysed=what, advance=advance)
    return {**told, "run": vars(replace(progress))}


def _seconds(trace: Trace) -> float:
    return _SECONDS + _SECONDS_PER_BYTE * trace.size


def _failed(trace: Trace, why: str) -> Sequence[Finding | Failure]:
    return [Failure(trace.name, trace.version, f"{trace.name!r} could not be analysed: {why}")]
