"""A network by what the user calls it: a name of torchvision or of timm, an import path, or an ONNX file."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from itertools import chain
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils._pytree import tree_map_only

from epochcast.analyzer.backends.network.factory import IMPORT_PATH, Built, call_factory, one_line
from epochcast.analyzer.backends.network.onnx_file import read_onnx
from epochcast.analyzer.errors import InputError, type_and_text
from epochcast.extras import how_to_install

_LIBRARIES = ("torchvision", "timm")

_MISSING = re.compile(r"operator (torchvision::\w+) does not exist")
_declared: list[Any] = []

_WITHOUT_AUXILIARY_HEADS = {"aux_logits": False, "init_weights": False}
_TORCHVISION_OPTIONS = {"googlenet": _WITHOUT_AUXILIARY_HEADS, "inception_v3": _WITHOUT_AUXILIARY_HEADS}
"""Auxiliary heads run in training only, and not in the networks that the paper measures; their weights may be any."""


def find_network(text: str, image_size: int, device: str = "meta") -> tuple[nn.Module, tuple[Any, ...]]:
    """Build a network, and what it is called with for one image.

    Args:
        text: ``torchvision:NAME``, ``timm:NAME``, or the name alone, which is looked up in torchvision (classification) and
            timm, in this order; ``package.module:factory``; or the path of a file that ends in ``.onnx``, which may be for a
            fixed number of images. A factory gives the network, or (network, inputs), whose first sample is taken; it may have
            parameters ``image_size`` and ``batch``. It runs code of that module: take import paths from the user's own files
            alone.
        image_size: side of the square image, pixels.
        device: where it is built, with random weights; on ``meta`` it takes neither memory nor time to initialise.

    Raises:
        InputError: there is no such network, its library is not installed, or it cannot be built.
    """
    if text.endswith(".onnx"):
        return read_onnx(text, image_size)[:2]
    network, inputs = built(text, _builder(text, image_size), device)
    if inputs is None:
        inputs = (torch.empty(1, 3, image_size, image_size, device=device),)
    return network.to(device), tree_map_only(Tensor, lambda tensor: tensor.to(device), inputs)


def _builder(text: str, image_size: int) -> Callable[[], Built]:
    library, _, name = text.rpartition(":")
    if library and library not in _LIBRARIES:
        if not IMPORT_PATH.fullmatch(text):
            raise InputError(f"{text!r} is not a network; give a name, torchvision:NAME, timm:NAME or package.module:factory")
        return partial(_from_factory, text, image_size)
    names = dict[str, list[str]]()
    for source in [library] if library else _LIBRARIES:
        names[source] = _names(source, needed=bool(library))
        if name in names[source]:
            return partial(_from_library, source, name, image_size)
    close = list(dict.fromkeys(get_close_matches(name, chain(*names.values()), n=3)))
    missing = [source for source, own in names.items() if not own]
    if close:
        hint = f"did you mean {' or '.join(close)}?"
    elif missing:
        hint = f"for the networks of {' and '.join(missing)}, {how_to_install('convnets')}"
    else:
        hint = "give a name from torchvision or timm"
    raise InputError(f"unknown network {text!r}; {hint} (for your own, give an import path, package.module:factory)")


def _names(library: str, needed: bool) -> list[str]:
    """Names of a library's networks; none where it is not installed, unless it is needed."""
    try:
        torchvision = import_torchvision()  # which timm imports, as it is
        if library == "torchvision":
            return list(torchvision.models.list_models(module=torchvision.models))
        import timm

        return list(timm.list_models())
    except Exception as error:  # a broken installation may raise anything
        if needed:
            raise InputError(
                f"{library} cannot be imported ({one_line(error)}); {how_to_install('convnets')}, or name another network"
            ) from error
        return []


def import_torchvision() -> ModuleType:
    """torchvision; ImportError if it is not installed.

    Package indexes serve torchvision compiled for CUDA next to a torch for processors only. Its library is then not loaded, and
    its Python code stops at the first operator that torch does not know, one for detection that no ConvNet calls. Declared
    under their names, without a kernel, these operators do not stop it.
    """
    while True:
        try:
            return import_module("torchvision")
        except RuntimeError as error:
            missing = _MISSING.search(str(error))
            if missing is None:
                raise
            library = torch.library.Library("torchvision", "FRAGMENT")
            library.define(f"{missing[1].removeprefix('torchvision::')}(Tensor x) -> Tensor")
            _declared.append(library)  # the declaration ends with the library
            for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
                del sys.modules[name]  # what was imported halfway


def _from_library(library: str, name: str, image_size: int) -> Built:
    """Transformers of timm have positions or windows for the size that they are built for."""
    torchvision = import_torchvision()  # which timm imports, as it is
    if library == "torchvision":
        return torchvision.models.get_model(name, weights=None, **_TORCHVISION_OPTIONS.get(name, {})), None
    import timm

    usual = timm.get_pretrained_cfg(name)
    sized = usual is not None and usual.fixed_input_size and usual.input_size[-1] != image_size
    return timm.create_model(name, pretrained=False, **({"img_size": image_size} if sized else {})), None


def _from_factory(path: str, image_size: int) -> Built:
    network, inputs = call_factory(path, {"image_size": image_size}, {"batch": 1, "classes": 1000})
    if inputs is not None:
        inputs = tree_map_only(Tensor, lambda tensor: tensor[:1] if tensor.dim() else tensor, inputs)
    return network, inputs


def built(text: str, build: Callable[[], Built], device: str = "meta", what: str = "network") -> Built:
    """What ``build`` gives: for ``meta`` without memory where the network's constructor works there, and as it is where not.

    Raises:
        InputError: it fails; ``text`` names the network.
    """
    if device == "meta":
        try:
            with _weights_on_meta():
                return build()
        except InputError:
            raise
        except (Exception, SystemExit):  # it computes with its weights, or fails anywhere
            pass
    try:
        return build()
    except InputError:
        raise
    except (Exception, SystemExit) as error:  # a user's code may raise anything
        raise InputError(f"the {what} {text!r} cannot be built: {type_and_text(error)}") from error


@contextmanager
def _weights_on_meta() -> Iterator[None]:
    """Send weights to the meta device as they are registered, before they are initialised.

    ``torch.device("meta")`` would do so with every tensor, but constructors compute with some, as RegNet's in torchvision.
    """

    def register(module: nn.Module, name: str, parameter: nn.Parameter | None) -> nn.Parameter | None:
        if parameter is None or parameter.is_meta:
            return None
        return nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)

    hook = register_module_parameter_registration_hook(register)
    try:
        yield
    finally:
        hook.remove()
