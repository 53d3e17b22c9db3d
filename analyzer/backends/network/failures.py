"""Why a network could not be traced without values, in a sentence."""

from __future__ import annotations

import traceback
from pathlib import Path

_BACKENDS = Path(__file__).parents[1]
_TRACERS = {
    _BACKENDS / folder for folder in ("network", "distributed/models", "distributed/plan", "convmeter", "occupancy/graph")
}

_NEEDS_VALUES = ("meta tensors", "_local_scalar_dense", "item()", "Meta", "numpy", "nonzero", "data-dependent", "HigherOrder")


def why_untraceable(what: str, error: Exception, otherwise: str = "it must run on its example inputs as it is") -> str:
    """``what`` cannot be traced, where and why; ``otherwise`` is the remedy where the error shows no other."""
    place = place_of(error)
    return f"{what} cannot be traced{place}: {one_line(error)}; {_remedy(error, bool(place), otherwise)}"


def place_of(error: Exception) -> str:
    """Where in a network's own code it failed: `` at net.py line 3 (the line)``; empty if nowhere."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).parent not in _TRACERS
        and "torch" not in Path(frame.filename).parts
        and not frame.filename.startswith("<")  # code that is made as it runs
    ]
    return f" at {Path(frames[-1].filename).name} line {frames[-1].lineno} ({frames[-1].line})" if frames else ""


def one_line(error: BaseException) -> str:
    """What an error says, for a sentence."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def _remedy(error: Exception, has_place: bool, otherwise: str) -> str:
    text = str(error)
    if "Meta kernel" in text:
        return "torch cannot infer this operator's output without running it; use other operators"
    if any(word in text for word in _NEEDS_VALUES):
        return (
            "its shapes or branches depend on values; take `.item()`, `if tensor` and boolean indexing out of forward, and "
            "put a dense layer as wide as the active ones in place of experts"
        )
    if isinstance(error, TypeError) and not has_place:
        return "forward is called with the example inputs in order; wrap a module that takes them by name"
    return otherwise
