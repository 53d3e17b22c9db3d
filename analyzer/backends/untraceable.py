"""Why a module did not run without values: one sentence with the place in the user's code and what to do."""

from __future__ import annotations

import traceback
from pathlib import Path

_HERE = Path(__file__).parent
_TRACERS = {_HERE, _HERE / "distributed", _HERE / "convmeter", _HERE / "occupancy" / "graph"}

_NEEDS_VALUES = ("meta tensors", "_local_scalar_dense", "item()", "Meta", "numpy", "nonzero", "data-dependent")


def why_untraceable(what: str, error: Exception, otherwise: str = "it must run on its example inputs as it is") -> str:
    """``what`` cannot be traced, where and why; ``otherwise`` is the remedy where the error shows no other."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).parent not in _TRACERS
        and "torch" not in Path(frame.filename).parts
        and not frame.filename.startswith("<")  # code that is made as it runs
    ]
    place = f" at {Path(frames[-1].filename).name} line {frames[-1].lineno} ({frames[-1].line})" if frames else ""
    return f"{what} cannot be traced{place}: {one_line(error)}; {_remedy(error, bool(frames), otherwise)}"


def one_line(error: BaseException) -> str:
    """What an error says, for a sentence."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def _remedy(error: Exception, found: bool, otherwise: str) -> str:
    text = str(error)
    if "Meta kernel" in text:
        return "torch cannot tell what this operator answers without running it; put others in its place"
    if any(word in text for word in _NEEDS_VALUES):
        return "its shapes or branches depend on values; take `.item()`, `if tensor` and boolean indexing out of forward"
    if isinstance(error, TypeError) and not found:
        return "forward is called with the example inputs in order; wrap a module that takes them by name"
    return otherwise
