"""The front door: clean the trace, choose the clock, run one method."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from epochcast.detector import clock as clocks
from epochcast.detector.epochs import Detection
from epochcast.detector.errors import InputError
from epochcast.detector.methods import METHODS
from epochcast.detector.signals import clean


def detect(
    time: ArrayLike,
    metrics: Mapping[str, ArrayLike],
    *,
    method: str = "track",
    clock: Literal["wall", "work", "auto"] = "auto",
    metric: str | Sequence[str] | None = None,
    **parameters: Any,
) -> Detection:
    """Find the training epochs in the telemetry of one GPU.

    Args:
        time: (n,) unix seconds, strictly increasing; need not be evenly spaced.
        metrics: name -> (n,) values in base units. Empty readings (NaN) are filled, see `signals.clean`.
        method: key of `METHODS`: `track` (uses all metrics, abstains when uncertain) or `paper` (one metric, always answers).
        clock: `wall`, `work` (seconds of full activity) or `auto`, see `clock.choose`.
        metric: the metric or metrics to use; by default the method chooses. The clock still uses them all.
        parameters: the method's own keywords.

    Raises:
        InputError: unusable input, in one sentence.
    """
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}: choose from {', '.join(METHODS)}")
    known = [name for name, p in inspect.signature(METHODS[method]).parameters.items() if p.kind is p.KEYWORD_ONLY]
    for name in parameters:
        if name not in known:
            raise InputError(f"method {method!r} has no parameter {name!r}: choose from {', '.join(known)}")
    signals = clean(time, metrics)
    return METHODS[method](signals.select(metric), clocks.choose(signals, clock), **parameters)
