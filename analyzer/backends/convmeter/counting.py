"""The metrics of a network, from one forward pass on the meta device: no memory, no computing (section 3)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, COMPUTING_KINDS, PER_IMAGE, NetworkMetrics
from epochcast.analyzer.backends.network.failures import why_untraceable
from epochcast.analyzer.backends.network.operators import layer_kind_of, name_of
from epochcast.analyzer.backends.network.recording import RecordedCall, TensorReference, record_evaluation
from epochcast.analyzer.errors import InputError

_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1}
"""Matrix products, and the position of their first factor."""

_NARROW = 64
"""Products per output element below which a convolution fills no matrix unit."""

_DEPTHWISE = 4
"""Input channels per group up to which a convolution counts as depthwise: too few products for a matrix unit at any kernel."""

_CONVOLUTIONS = ("spatial", "pointwise", "grouped", "depthwise")


def count(network: nn.Module, inputs: tuple[Any, ...], name: str, image_size: int, block: str = "") -> NetworkMetrics:
    """Count a network, or the submodule at the path ``block``, called on ``inputs``.

    Operators are counted as they run in evaluation, functional calls too. An operator on weights alone (a standardised kernel)
    has no traffic, because the batch does not multiply it.

    Args:
        network: on any device; it is left as it was.
        inputs: of any number of images; counts are of one.
        name: of the network, for the answer and for messages.
        image_size: side of the image, pixels.
        block: path as in ``named_modules()``; the whole network if empty.

    Raises:
        InputError: the network does not run without values or at this size, or nothing in it has FLOPs; no such block, or the
            block does not run.
    """
    passed = _Pass(network, inputs, name, image_size)
    metrics = passed.metrics(block)
    if not metrics.values["flops"]:
        raise InputError(
            f"{passed.called(block)} has no convolution, dense layer or matrix product; predictions from FLOPs and layers "
            "need at least one"
        )
    return metrics


def count_blocks(network: nn.Module, inputs: tuple[Any, ...], name: str, image_size: int) -> dict[str, NetworkMetrics]:
    """Count every submodule that ran, by its path in the order of definition, from one pass; those without FLOPs are there too.

    Arguments and errors as for :func:`count`. A module that runs several times holds all its calls.
    """
    passed = _Pass(network, inputs, name, image_size)
    return {path: passed.metrics(path) for path, _ in network.named_modules() if path and path in passed.layers}


@dataclass(frozen=True)
class _Layer:
    """An operator at batch 1.

    Attributes:
        kind: one of :data:`.metrics.KINDS`.
        read, written: elements of the activations.
        flops: 0 for what memory bounds.
        weight: the kernel of a convolution or dense layer; None for other operators.
    """

    kind: str
    read: int
    written: int
    flops: float = 0.0
    weight: TensorReference | None = None


def _layer_of(call: RecordedCall, activations: Sequence[TensorReference]) -> _Layer | None:
    """The layer that a call is; None for views and allocations, which cost nothing.

    Args:
        call: any.
        activations: its inputs that depend on the network's inputs.
    """
    name, kind = name_of(call.operator), layer_kind_of(call.operator)
    if kind is None or not call.outputs:
        return None
    read = sum(tensor.meta.numel() for tensor in activations)
    # Statistics of normalisations and indices of poolings come after the first output.
    counted = call.outputs[:1] if kind in ("normalisation", "pooling") else call.outputs
    # What is made of weights alone, such as a standardised kernel, is made once however large the batch.
    written = sum(tensor.meta.numel() for tensor in counted) if activations else 0
    if activations and name in ("convolution", "_convolution"):
        return _convolution(call.arguments, read, written)
    if activations and name in _PRODUCTS:
        factors = call.arguments[_PRODUCTS[name] :][:2]
        weight = next((factor for factor in factors if factor not in activations), None)
        flops = 2.0 * factors[0].meta.shape[-1] * written
        return _Layer("linear" if weight else "attention", read, written, flops, weight)
    return _Layer(kind, read, written)


def _convolution(arguments: Sequence[Any], read: int, written: int) -> _Layer:
    image, weight, transposed, groups = arguments[0], arguments[1], arguments[6], arguments[8]
    read, kernel = image.meta.numel(), weight.meta.shape
    # A transposed convolution multiplies each input with its kernel instead of gathering each output from one.
    flops = 2.0 * (read if transposed else written) * math.prod(kernel[1:])
    if groups > 1:
        kind = "depthwise" if image.meta.shape[1] // groups <= _DEPTHWISE else "grouped"
    else:
        kind = "pointwise" if math.prod(kernel[2:]) == 1 else "spatial"
    return _Layer(kind, read, written, flops, weight)


def _sums(layers: Iterable[_Layer]) -> dict[str, float]:
    """All of :data:`.metrics.COLUMNS` that follow from the layers: not ``weights`` and ``parameter_tensors``, which stay 0."""
    values = dict.fromkeys(COLUMNS, 0.0)
    kernels: dict[int, tuple[str, int]] = {}  # by what has a memory of its own: each is kept once
    for layer in layers:
        values["operators"] += 1
        values[f"{layer.kind}_operators"] += 1
        values[f"{layer.kind}_traffic"] += layer.read + layer.written
        if layer.kind not in COMPUTING_KINDS:
            continue
        values["flops"] += layer.flops
        values[f"{layer.kind}_flops"] += layer.flops
        if layer.kind in _CONVOLUTIONS:
            values["conv_inputs"] += layer.read
            values["conv_outputs"] += layer.written
            values["narrow_flops"] += layer.flops if layer.flops < 2 * layer.written * _NARROW else 0.0
        if layer.weight is not None:
            values["layers"] += 1
            kind = "conv_weights" if layer.kind in _CONVOLUTIONS else "linear_weights"
            kernels[layer.weight.storage] = (kind, layer.weight.elements)
    for kind, elements in kernels.values():
        values[kind] += elements
    return values


class _Pass:
    """A forward pass: the layers of each module that ran, by its path."""

    def __init__(self, network: nn.Module, inputs: tuple[Any, ...], name: str, image_size: int) -> None:
        self.network, self.name, self.image_size = network, name, image_size
        self.layers: dict[str, list[_Layer]] = defaultdict(list)
        self.images = next((len(leaf) for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor) and leaf.dim()), 1)
        try:
            recording = record_evaluation(network, inputs)
        except InputError:
            raise
        except Exception as error:  # a user's network may raise anything
            remedy = f"give an image size that it accepts instead of {image_size} pixels, or a factory of (network, inputs)"
            raise InputError(why_untraceable(name, error, remedy)) from error
        computed = set(recording.inputs)
        for call in recording.calls:
            activations = [tensor for tensor in call.inputs if tensor.number in computed]
            if activations:
                computed.update(tensor.number for tensor in call.outputs)
            if layer := _layer_of(call, activations):
                for path in dict.fromkeys(call.path):
                    self.layers[path].append(layer)

    def called(self, block: str) -> str:
        return f"the block {block!r} of {self.name}" if block else self.name

    def metrics(self, block: str) -> NetworkMetrics:
        try:
            module = self.network.get_submodule(block)
        except AttributeError as error:
            raise InputError(
                f"{self.name} has no block {block!r}; give a path from its named_modules(), such as layer1.0"
            ) from error
        if block and block not in self.layers:
            raise InputError(f"{self.called(block)} does not run, or has no operator; name a block that computes something")
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        sums = _sums(self.layers[block])
        values = sums | {name: sums[name] / self.images for name in PER_IMAGE}
        values |= {
            "weights": float(sum(parameter.numel() for parameter in trained)),
            "parameter_tensors": float(len(trained)),
        }
        return NetworkMetrics(self.name, block, self.image_size, values)


def block_path(network: nn.Module, text: str) -> str:
    """Path of a submodule by its path (``layer2.0``) or by its class and number (``Bottleneck4``, as in section 4.1.2).

    Modules of a class are numbered from 0 in the order of definition.

    Raises:
        InputError: there is none of this name.
    """
    named = block_names(network)
    names: dict[str, str] = {path: path for path in named} | {name: path for path, name in named.items()}
    if text not in names:
        close = get_close_matches(text, names, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "give a path such as layer2.0, or a class and its number"
        raise InputError(f"{type(network).__name__} has no block {text!r}; {hint}")
    return names[text]


def block_names(network: nn.Module) -> dict[str, str]:
    """Class and number of every submodule, such as ``Bottleneck4``, by its path."""
    seen: dict[str, int] = {}
    named = {}
    for path, module in network.named_modules():
        kind = type(module).__name__
        if path:
            named[path] = f"{kind}{seen.get(kind, 0)}"
        seen[kind] = seen.get(kind, 0) + 1
    return named


def top_blocks(network: nn.Module) -> list[str]:
    """Paths of the blocks that a network is a sequence of (section 4.1.2), in their order.

    These are the network's own parts, and instead of a plain sequence or list what it holds. Subclasses of a sequence are
    blocks: such as torchvision's convolution with its norm and activation.
    """
    return list(_top_blocks(network, ""))


def _top_blocks(module: nn.Module, path: str) -> Iterator[str]:
    for name, child in module.named_children():
        below = f"{path}{name}"
        if type(child) in (nn.Sequential, nn.ModuleList):
            yield from _top_blocks(child, f"{below}.")
        else:
            yield below
