"""The network that a campaign trains: one of the paper's, or a user's own."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

from torch import nn

from epochcast.analyzer.backends.networks import NETWORKS
from epochcast.analyzer.backends.networks import build as build_known
from epochcast.analyzer.backends.user_factory import IMPORT_PATH, import_factory, module_and_inputs, type_and_text
from epochcast.analyzer.errors import InputError


def build(name: str, image_size: int, classes: int = 10) -> nn.Module:
    """Build a network for square images of ``image_size`` pixels and that many classes.

    ``name`` is a key of ``NETWORKS``, or an import path ``package.module:factory`` that is called as
    ``factory(image_size=…, classes=…)``. It runs code of that module: take import paths from the user's own files alone.

    Raises:
        InputError: the name is unknown, the factory cannot be imported, fails or gives no module, or a size is impossible.
    """
    if name in NETWORKS:
        return build_known(name, image_size, classes)
    factory = _factory(name)
    try:
        made = factory(image_size=image_size, classes=classes)
    except InputError:
        raise
    except Exception as error:  # a user's code may raise anything
        raise InputError(
            f"the network {name!r} cannot be built for images of {image_size} pixels and {classes} classes: "
            f"{type_and_text(error)}; fix the factory"
        ) from error
    return module_and_inputs(name, made)[0]


def _factory(name: str) -> Callable[..., object]:
    if IMPORT_PATH.fullmatch(name):
        return import_factory(name)
    close = get_close_matches(name, NETWORKS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(NETWORKS)}"
    raise InputError(f"unknown network {name!r}; {hint} (for your own, give an import path, package.module:factory)")
