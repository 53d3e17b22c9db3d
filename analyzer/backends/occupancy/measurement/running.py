"""Networks with random weights on the device, ready to run a step of inference."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from ...convmeter.measurement.memory import free_bytes
from ..configuration import Configuration
from ..networks import NETWORKS
from ..networks.build_network import build_network, set_channels

Step = Callable[[], object]

_MOST_KEPT = 0.25  # of the memory that is free
_TOKENS = 1000  # that texts are drawn from; every vocabulary is larger
_DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class RunningNetworks:
    """Builds networks, and keeps them from one configuration to the next while they take little memory.

    Args:
        device: torch's name.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._kept: dict[Configuration, nn.Module] = {}

    def step(self, configuration: Configuration) -> Step:
        """What runs one step of inference on random inputs; weights and inputs have the configuration's precision.

        PyTorch's defaults hold: with fp32 its convolutions compute in TF32 on GPUs that can, its matrix products do not.

        Raises:
            InputError: the network cannot be built.
        """
        _, shapes = build_network(configuration)
        network = self._network(configuration)
        inputs = tree_map_only(Tensor, lambda one: self._random(one, configuration), shapes)

        def run() -> object:
            with torch.inference_mode():
                return network(*inputs)

        return run

    def bytes_of_others(self, configuration: Configuration) -> int:
        """Bytes that networks take on the device which are kept there and are not this configuration's."""
        own = _network_of(configuration)
        return sum(_bytes(network) for kept, network in self._kept.items() if kept != own)

    def clear(self) -> None:
        """Give all memory back."""
        self._kept.clear()
        gc.collect()
        if self._device == "cuda":
            torch.cuda.empty_cache()

    def _network(self, configuration: Configuration) -> nn.Module:
        key = _network_of(configuration)
        if key not in self._kept:
            if sum(map(_bytes, self._kept.values())) > _MOST_KEPT * free_bytes(self._device):
                self.clear()
            network, _ = build_network(configuration, "cpu")
            self._kept[key] = network.requires_grad_(False).to(self._device, _DTYPES[configuration.precision])
        network = self._kept[key]
        if configuration.channels and configuration.network in NETWORKS:
            set_channels(network, configuration.channels, configuration.network)
        return network

    def _random(self, like: Tensor, configuration: Configuration) -> Tensor:
        if like.is_floating_point():
            return torch.randn(like.shape, device=self._device).to(_DTYPES[configuration.precision])
        if configuration.network in NETWORKS:
            return torch.randint(_TOKENS, like.shape, dtype=like.dtype, device=self._device)
        return torch.zeros(like.shape, dtype=like.dtype, device=self._device)


def _network_of(configuration: Configuration) -> Configuration:
    """What the network's weights depend on, but for the first convolution's channels, which can be changed."""
    if configuration.network in NETWORKS:
        return replace(configuration, batch=1, channels=0, sequence=0)
    return replace(configuration, batch=1)


def _bytes(network: nn.Module) -> int:
    held: list[Any] = [*network.parameters(), *network.buffers()]
    return sum(one.nbytes for one in held)
