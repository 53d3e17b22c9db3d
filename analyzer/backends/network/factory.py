"""What is the user's own: a network by import path, and why one cannot be traced without values; torch is loaded last."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Mapping
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochcast.analyzer.errors import InputError, type_and_text

if TYPE_CHECKING:
    from torch import nn


IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""``package.module:factory``."""

Built = tuple["nn.Module", tuple[Any, ...] | None]
"""A network, and what it is called with if its factory says so."""


def call_factory(
    path: str, given: Mapping[str, int], usual: Mapping[str, int], what: str = "network", returns: str = "a torch.nn.Module"
) -> Built:
    """What ``package.module:factory`` gives; the current folder is searched first, as by ``python -m``.

    It runs code of that module: take import paths from the user's own files alone.

    Args:
        path: where the factory is.
        given: sizes that it is called with where it takes them; not those that are 0.
        usual: sizes that it is called with where it must have them.
        what: it builds, for messages.
        returns: what it must return, for messages: a module, or a pair of a module and a tensor or tuple of any nesting.

    Raises:
        InputError: it cannot be imported, is nothing that can be called, or gives no module, or inputs without a tensor that
            has an axis. What the factory itself raises passes through.
    """
    name, _, attribute = path.partition(":")
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        factory: object = getattr(import_module(name), attribute)
    except (Exception, SystemExit) as error:  # an import runs a user's code
        raise InputError(
            f"the {what} {path!r} cannot be imported: {type_and_text(error)}; is its folder the current one, or on PYTHONPATH?"
        ) from error
    if not callable(factory):
        raise InputError(f"the {what} {path!r} is a {type(factory).__name__}; it must be a callable that builds one")
    from torch import Tensor, nn
    from torch.utils._pytree import tree_leaves

    takes = signature(factory).parameters
    required = {name: value for name, value in usual.items() if name in takes and takes[name].default is Parameter.empty}
    made = factory(**required | {name: value for name, value in given.items() if name in takes and value})
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, nn.Module):
        raise InputError(f"the {what} {path!r} gives a {type(module).__name__}; its factory must return {returns}")
    if inputs is None:
        return module, None
    if isinstance(inputs, Tensor):
        inputs = (inputs,)
    if not isinstance(inputs, (tuple, list)) or not any(isinstance(one, Tensor) and one.dim() for one in tree_leaves(inputs)):
        raise InputError(
            f"the {what} {path!r} comes without example inputs: no tensors to call it with; "
            "its factory must return (module, inputs)"
        )
    return module, tuple(inputs)


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
