"""What Paleo needs to know of a network: its layers in order, each with its operations and what it reads and writes."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from epochcast.analyzer.errors import InputError
from lab.rivals.paleo import Layer


def layers_of(network: nn.Module, image_size: int) -> list[Layer]:
    """List the layers that Paleo counts, in the order that one image of shape (3, image_size, image_size) passes them.

    These are convolutions, dense layers, pooling and dropout. Activations, normalisation and additions are left out, as in the
    authors' code (TalwalkarLab/paleo, `flops_profiler.py`), which holds that they are no bottleneck. A network on torch's meta
    device costs neither memory nor computing.

    Raises:
        InputError: the network does not take such an image, or none of its layers is counted.
    """
    layers: list[Layer] = []

    def note(module: nn.Module, given: tuple[Tensor, ...], answer: Tensor) -> None:
        flops = next(count for kind, count in _FLOPS.items() if isinstance(module, kind))
        weights = sum(parameter.numel() for parameter in module.parameters())
        layers.append(Layer(type(module).__name__, flops(module, given[0], answer), given[0].numel(), answer.numel(), weights))

    hooks = [module.register_forward_hook(note) for module in network.modules() if isinstance(module, _COUNTED)]
    training = network.training
    device = next((parameter.device for parameter in network.parameters()), torch.device("meta"))
    try:
        # In training, batch normalisation refuses a single value per channel, which one image may leave.
        network.eval()
        with torch.no_grad():
            network(torch.empty(1, 3, image_size, image_size, device=device))
    except Exception as error:  # a user's network may raise anything
        raise InputError(
            f"the network does not take an image of {image_size} pixels: {error}; build it for that size"
        ) from error
    finally:
        network.train(training)
        for hook in hooks:
            hook.remove()
    if not layers:
        raise InputError("the network has no convolution, dense layer or pooling; Paleo has nothing to count in it")
    return layers


def _convolution(module: Any, x: Tensor, y: Tensor) -> float:
    return float(2 * y.numel() * math.prod(module.kernel_size) * module.in_channels // module.groups)


def _dense(module: Any, x: Tensor, y: Tensor) -> float:
    return float(2 * y.numel() * module.in_features)


def _pooling(module: Any, x: Tensor, y: Tensor) -> float:
    kernel = module.kernel_size
    return float(2 * y.numel() * (math.prod(kernel) if isinstance(kernel, tuple) else kernel**2))


def _pooling_of_all(module: Any, x: Tensor, y: Tensor) -> float:
    return float(2 * x.numel())


def _one_each(module: Any, x: Tensor, y: Tensor) -> float:
    return float(x.numel())


_FLOPS: dict[type[nn.Module], Callable[[Any, Tensor, Tensor], float]] = {
    nn.Conv2d: _convolution,
    nn.Linear: _dense,
    nn.MaxPool2d: _pooling,
    nn.AvgPool2d: _pooling,
    nn.AdaptiveAvgPool2d: _pooling_of_all,
    nn.Dropout: _one_each,
}
_COUNTED: Any = tuple(_FLOPS)
