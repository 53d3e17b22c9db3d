"""One method on one labelled trace: run, timed and scored."""

from collections.abc import Mapping
from time import process_time
from typing import Any, Literal

from numpy.typing import ArrayLike

from .. import clock as clocks
from ..detection import detect
from ..epochs import ClockName, Detection
from ..errors import InputError
from ..methods import METHODS
from ..signals import Signals, clean
from .labels import Labels
from .scores import TraceScore, score_trace


def evaluate_trace(
    name: str,
    time: ArrayLike,
    metrics: Mapping[str, ArrayLike],
    labels: Labels,
    *,
    method: str = "track",
    clock: Literal["wall", "work", "auto"] = "auto",
    **parameters: Any,
) -> TraceScore:
    """Run a method on a trace and score its answer; the method is told nothing but the trace.

    Where the method refuses the trace (too short for it, no activity for its clock) the score is that of an abstention and
    holds the reason. `cpu_s` is CPU time of this process, all threads.

    Args:
        name: of the trace.
        time, metrics, method, clock, parameters: as for `detect`.
        labels: the truth.

    Raises:
        InputError: the trace itself is unusable, see `signals.clean`, the method unknown, or the labels are not the trace's.
    """
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}: choose from {', '.join(METHODS)}")
    signals = clean(time, metrics)
    reason = None
    began = process_time()
    try:
        found = detect(time, metrics, method=method, clock=clock, **parameters)
    except InputError as error:
        reason = str(error)
        found = Detection("none", None, None, (), 0.0, method, _clock_name(signals, clock))
    spent = process_time() - began
    return score_trace(name, found, labels, time, metrics, cpu_s=spent, reason=reason)


def _clock_name(signals: Signals, clock: Literal["wall", "work", "auto"]) -> ClockName:
    """The clock that the trace would have been searched on; the wall clock where it has no other."""
    try:
        return clocks.choose(signals, clock).name
    except InputError:
        return "wall"
