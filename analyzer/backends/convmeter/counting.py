"""The metrics of a network, from one forward pass on the meta device: no memory, no computing (section 3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from epochcast.analyzer.backends.convmeter.metrics import (
    CountedLayer,
    NetworkMetrics,
    convolution,
    matrix_product,
    metrics_of_layers,
)
from epochcast.analyzer.backends.reader.aten_operators import moving_kind_of, name_of
from epochcast.analyzer.backends.reader.failures import why_untraceable
from epochcast.analyzer.backends.reader.running_modules import module_paths, named_tensors, storage_of
from epochcast.analyzer.errors import InputError

_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1}
"""Matrix products, and the position of their first factor."""


def count(network: nn.Module, inputs: tuple[Any, ...], name: str, image_size: int, block: str = "") -> NetworkMetrics:
    """Count a network, or the submodule at the path ``block``, called on ``inputs``.

    Operators are counted as they run in evaluation, functional calls too. An operator on weights alone (a standardised kernel)
    has no traffic, because the batch does not multiply it.

    Args:
        network: on any device; it is left as it was.
        inputs: of one image.
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


class _Calls(TorchDispatchMode):
    """Runs every aten call on the meta device and records its layers by the path of each module around it."""

    def __init__(self, activations: Iterable[Tensor]) -> None:
        super().__init__()
        self.path: list[str] = []
        self.layers: dict[str, list[CountedLayer]] = defaultdict(list)
        self._activations = {id(tensor): tensor for tensor in activations}  # held, so that no other takes their identity
        self._made_of_weights: list[Tensor] = []  # held too: kernels are distinguished by their memory
        self._constants: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        activations = [tensor for tensor in tensors if id(tensor) in self._activations]
        if activations and any(tensor.device.type != "meta" for tensor in tensors):
            args, kwargs = tree_map_only(Tensor, self._on_meta, (args, kwargs))
        result = operator(*args, **kwargs)
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if activations:
            self._activations.update((id(tensor), tensor) for tensor in outputs)
        else:
            self._made_of_weights += outputs
        layer = _layer_of(operator, args, activations, outputs)
        if layer is not None:
            for path in dict.fromkeys(self.path):
                self.layers[path].append(layer)
        return result

    def _on_meta(self, tensor: Tensor) -> Tensor:
        """A constant that the network made or keeps outside its state."""
        if tensor.device.type == "meta":
            return tensor
        if id(tensor) not in self._constants:
            self._constants[id(tensor)] = (tensor, torch.empty_like(tensor, device="meta"))
        return self._constants[id(tensor)][1]


def _layer_of(
    operator: Any, arguments: Sequence[Any], activations: Sequence[Tensor], outputs: Sequence[Tensor]
) -> CountedLayer | None:
    """The layer that a call is; None for views and allocations, which cost nothing.

    Args:
        operator: ``OpOverload`` that was called.
        arguments: positional arguments.
        activations: arguments that depend on the network's inputs.
        outputs: of the call.
    """
    name, kind = name_of(operator), moving_kind_of(operator)
    if kind is None or not outputs:
        return None
    read = sum(tensor.numel() for tensor in activations)
    # Statistics of normalisations and indices of poolings come after the first output.
    written = outputs[0].numel() if kind in ("normalisation", "pooling") else sum(tensor.numel() for tensor in outputs)
    if activations and name in ("convolution", "_convolution"):
        image, weight, transposed, groups = arguments[0], arguments[1], arguments[6], arguments[8]
        return convolution(image.shape, weight.shape, written, groups, transposed, storage_of(weight))
    if activations and name in _PRODUCTS:
        return _product(arguments[_PRODUCTS[name] :][:2], activations, read, written)
    # What is made of weights alone, such as a standardised kernel, is made once however large the batch.
    return CountedLayer(kind, 0.0, read, written if activations else 0)


def _product(factors: Sequence[Tensor], activations: Sequence[Tensor], read: int, written: int) -> CountedLayer:
    computed = {id(tensor) for tensor in activations}
    weight = next((factor for factor in factors if id(factor) not in computed), None)
    if weight is None:
        return matrix_product(factors[0].shape[-1], read, written)
    return matrix_product(factors[0].shape[-1], read, written, storage_of(weight), weight.numel())


class _Pass:
    """A forward pass: the layers of each module that ran, by its path."""

    def __init__(self, network: nn.Module, inputs: tuple[Any, ...], name: str, image_size: int) -> None:
        self.network, self.name, self.image_size = network, name, image_size
        modes = [(module, module.training) for module in network.modules()]
        try:
            state, images = _on_meta(network, inputs)
            calls = _Calls(leaf for leaf in tree_leaves(images) if isinstance(leaf, Tensor))
            network.eval()
            with torch.no_grad(), module_paths(network, calls.path), calls:
                torch.func.functional_call(network, state, images, tie_weights=False)
        except Exception as error:  # a user's network may raise anything
            raise InputError(
                why_untraceable(
                    name,
                    error,
                    f"give an image size that it accepts instead of {image_size} pixels, or a factory of (network, inputs)",
                )
            ) from error
        finally:
            for module, training in modes:
                module.training = training
        self.layers = calls.layers

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
        values = metrics_of_layers(self.layers[block]) | {
            "weights": float(sum(parameter.numel() for parameter in trained)),
            "parameter_tensors": float(len(trained)),
        }
        return NetworkMetrics(self.name, block, self.image_size, values)


def _on_meta(network: nn.Module, inputs: tuple[Any, ...]) -> tuple[dict[str, Tensor], tuple[Any, ...]]:
    """The network's tensors by name, and the inputs, without memory and all floats of one type: counts do not depend on it."""
    twins: dict[int, Tensor] = {}

    def twin(tensor: Tensor) -> Tensor:
        if id(tensor) not in twins:
            dtype = torch.float32 if tensor.is_floating_point() else tensor.dtype
            twins[id(tensor)] = torch.empty_like(tensor, device="meta", dtype=dtype)
        return twins[id(tensor)]

    return {name: twin(tensor) for name, tensor in named_tensors(network)}, tree_map_only(Tensor, twin, inputs)


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
