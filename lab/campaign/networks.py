"""The network that a campaign trains: one of the paper's, or a user's own."""

from __future__ import annotations

from torch import nn

from epochcast.analyzer.backends.networks import NETWORKS
from epochcast.analyzer.backends.networks import build as build_known
from epochcast.analyzer.backends.user_factory import IMPORT_PATH, import_factory, module_and_inputs
from epochcast.analyzer.errors import InputError


def build(name: str, image_size: int, classes: int = 10) -> nn.Module:
    """Build a network for square images of ``image_size`` pixels and that many classes.

    ``name`` is a key of ``NETWORKS``, or an import path ``package.module:factory`` that is called as
    ``factory(image_size=…, classes=…)``. It runs code of that module: take import paths from the user's own files alone.

    Raises:
        InputError: the name is unknown, the factory cannot be imported or gives no module, or a size is impossible.
    """
    if name in NETWORKS:
        return build_known(name, image_size, classes)
    if not IMPORT_PATH.fullmatch(name):
        raise InputError(f"unknown network {name!r}; known are {', '.join(NETWORKS)}, or give package.module:factory")
    return module_and_inputs(name, import_factory(name)(image_size=image_size, classes=classes))[0]
