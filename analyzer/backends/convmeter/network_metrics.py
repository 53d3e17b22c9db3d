"""Metrics of a network by the name that the user gives."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from epochcast.analyzer.backends.convmeter.known_metrics import find_known
from epochcast.analyzer.backends.convmeter.metrics import NetworkMetrics
from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install


def metrics_of(text: str, image_size: int, block: str = "") -> NetworkMetrics:
    """Metrics of one image; torch is loaded only for networks that are not in our table.

    Args:
        text: as :func:`..network.find.find_network` says.
        image_size: side of the square image, pixels.
        block: path (``layer2.0``) or class and number (``Bottleneck4``) of a block to count alone; the answer has its path.

    Raises:
        InputError: there is no such network or block, or it cannot be counted.
    """
    name = Path(text).name if text.endswith(".onnx") else text.removeprefix("torchvision:")
    known = find_known(name, image_size, block)
    if known is not None:
        return known
    finding, counting = _with_torch(text, image_size)
    if block:
        _refuse_blocks_of_file(text)
    network, inputs = finding.find_network(text, image_size)
    path = counting.block_path(network, block) if block else ""
    counted: NetworkMetrics = counting.count(network, inputs, name, image_size, path)
    return counted


def top_block_metrics_of(text: str, image_size: int) -> list[NetworkMetrics]:
    """Metrics of the blocks that the network is a sequence of, in their order, without those that compute nothing; loads torch.

    Arguments and errors as for :func:`metrics_of`; an ONNX file has no blocks.
    """
    _refuse_blocks_of_file(text)
    finding, counting = _with_torch(text, image_size)
    network, inputs = finding.find_network(text, image_size)
    counted = counting.count_blocks(network, inputs, text.removeprefix("torchvision:"), image_size)
    return [counted[path] for path in counting.top_blocks(network) if path in counted and counted[path].values["flops"] > 0]


def _refuse_blocks_of_file(text: str) -> None:
    if text.endswith(".onnx"):
        raise InputError(
            f"{text!r} does not name the blocks of its network; give the network by name or import path to predict them"
        )


def _with_torch(text: str, image_size: int) -> tuple[ModuleType, ModuleType]:
    """The modules that find and count networks; raises InputError where PyTorch cannot be loaded."""
    try:
        from epochcast.analyzer.backends.convmeter import counting
        from epochcast.analyzer.backends.network import find
    except ImportError as error:
        raise InputError(
            f"{text} at {image_size} pixels, or its requested part, is not in the shipped table, and counting it needs "
            f"PyTorch, which cannot be loaded ({error}); {how_to_install('torch,convnets')}"
        ) from error
    return find, counting
