"""A module of the user's own, by import path, with its example inputs and its repeated blocks; torch is loaded when one is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochcast.analyzer.backends.distributed.models.configuration import Configuration, from_text, named, read_config
from epochcast.analyzer.backends.network.factory import IMPORT_PATH, call_factory
from epochcast.analyzer.errors import InputError

if TYPE_CHECKING:
    from torch import nn


_UNASKED = {"batch": 1, "sequence_length": 128}
"""What a factory is called with that must have them, before a job says."""


@dataclass(frozen=True)
class UserModule:
    """What a factory made.

    Attributes:
        name: the import path.
        module: on the meta device, if its factory works there.
        inputs: example inputs, positional; the first axis of the first tensor is the micro-batch.
    """

    name: str
    module: nn.Module
    inputs: tuple[Any, ...]


def load(path: str, batch: int | None = None, sequence_length: int | None = None) -> UserModule:
    """Call ``package.module:factory``, which gives ``(module, example_inputs)``.

    ``batch`` and ``sequence_length`` are handed to a factory that has parameters of these names. The current folder is
    searched first, as by ``python -m``. It runs code of that module: take import paths from the user's own files alone.

    Raises:
        InputError: the factory cannot be imported, fails, gives no module, no example inputs, or others than of the
            ``batch`` samples that were requested.
    """
    from torch import Tensor
    from torch.utils._pytree import tree_leaves, tree_map_only

    from epochcast.analyzer.backends.network.find import built

    given = {"batch": batch or 0, "sequence_length": sequence_length or 0}
    build = partial(call_factory, path, given, _UNASKED, "model", "(torch.nn.Module, example_inputs)")
    module, inputs = built(path, build, what="model")
    if inputs is None:
        raise InputError(
            f"the model {path!r} comes without example inputs; its factory must return (module, example_inputs), a tuple of "
            "the module's arguments"
        )
    inputs = tree_map_only(Tensor, lambda tensor: tensor.to("meta"), inputs)
    samples = next(len(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor) and leaf.dim())
    if batch and samples != batch:
        raise InputError(
            f"the model {path!r} gives example inputs of {samples} samples for micro-batches of {batch}; let its factory take "
            "batch, the first axis of its first input"
        )
    return UserModule(path, module, inputs)


def resolve(text: str, batch: int | None = None, sequence_length: int | None = None) -> Configuration | UserModule:
    """What the user calls a model, by the form of the text.

    ``….json`` is a Hugging Face configuration, ``style:key=value,…`` a model by its numbers, ``package.module:factory`` a
    module of the user's own (whose factory may take ``batch`` and ``sequence_length``), anything else a built-in model's name.

    Raises:
        InputError: there is no such model, or it cannot be read or built.
    """
    if text.endswith(".json"):
        return read_config(Path(text))
    if IMPORT_PATH.fullmatch(text):
        return load(text, batch, sequence_length)
    return from_text(text) if ":" in text else named(text)


def find_blocks(module: nn.Module, least: int = 2) -> str | None:
    """Path of the longest ModuleList or Sequential of ``least`` or more modules of one class; None if there is none.

    Of two as long ones the first counts. The content of such a container (a block's experts) is no candidate,
    nor is the module itself.
    """
    from torch import nn

    lengths: dict[str, int] = {}
    for path, container in module.named_modules():
        if any(path.startswith(f"{outer}.") for outer in lengths) or not isinstance(container, (nn.ModuleList, nn.Sequential)):
            continue
        if path and len(container) >= least and len({type(child) for child in container}) == 1:
            lengths[path] = len(container)
    return max(lengths, key=lambda path: lengths[path]) if lengths else None
