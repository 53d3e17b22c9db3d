"""Networks with random weights on the device, ready to run."""

from __future__ import annotations

import gc
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from epochcast.analyzer.backends.convmeter.measurement.device import free_bytes
from epochcast.analyzer.backends.convmeter.measurement.plan import PlannedPoint
from epochcast.analyzer.backends.network.find import find_network

_MOST_KEPT = 0.25  # of the memory that is free


class Networks:
    """Builds networks, and keeps them from item to item while they take little memory.

    Args:
        device: torch's name.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._kept: dict[tuple[str, int], tuple[nn.Module, tuple[Any, ...]]] = {}

    def ready(self, item: PlannedPoint) -> tuple[nn.Module, tuple[Any, ...], str]:
        """The network or block, its inputs at the item's batch, and the network's family.

        A block gets random tensors as large as its inputs within the network, which need a gradient too. Networks of a Python
        module are a family: torchvision and timm have a module for each design.
        """
        network, image = self._network(item.metrics.network, item.metrics.image_size)
        family = type(network).__module__.rpartition(".")[2]
        block = item.metrics.block
        module = network.get_submodule(block)
        inputs = _block_inputs(network, image, module) if block else image

        def random(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point():
                return torch.zeros((item.batch, *tensor.shape[1:]), dtype=tensor.dtype, device=self._device)
            return torch.randn((item.batch, *tensor.shape[1:]), device=self._device).requires_grad_(bool(block))

        return module, tree_map_only(Tensor, random, inputs), family

    def clear(self) -> None:
        """Give all memory back."""
        self._kept.clear()
        gc.collect()
        if self._device == "cuda":
            torch.cuda.empty_cache()

    def _network(self, name: str, image_size: int) -> tuple[nn.Module, tuple[Any, ...]]:
        if (name, image_size) not in self._kept:
            held = sum(weights.nbytes for network, _ in self._kept.values() for weights in network.parameters())
            if held > _MOST_KEPT * free_bytes(self._device):
                self.clear()
            network, image = find_network(name, image_size, "cpu")
            image = tree_map_only(Tensor, lambda tensor: tensor.to(self._device), image)
            self._kept[name, image_size] = network.to(self._device), image
        return self._kept[name, image_size]


def _block_inputs(network: nn.Module, image: tuple[Any, ...], block: nn.Module) -> tuple[Any, ...]:
    """The inputs of a block while its network runs."""
    seen: list[tuple[Any, ...]] = []
    # Copied: DenseNet keeps appending to the list of tensors that its layers get.
    watch = block.register_forward_pre_hook(lambda _, inputs: seen.append(tree_map_only(Tensor, lambda tensor: tensor, inputs)))
    try:
        network.eval()
        with torch.no_grad():
            network(*image)
    finally:
        watch.remove()
    return seen[0]
