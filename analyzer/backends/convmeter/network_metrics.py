"""The metrics of a network by what the user calls it."""

from __future__ import annotations

from .known_metrics import find_known
from .metrics import NetworkMetrics


def metrics_of(text: str, image_size: int, block: str = "") -> NetworkMetrics:
    """Metrics of one image; torch is loaded only for what is not known beforehand.

    Args:
        text: ``….onnx`` is a file, all else as :func:`.find_network.find_network` says.
        image_size: side of the square image, pixels.
        block: path (``layer2.0``) or class and number (``Bottleneck4``) of a block to count alone; the answer has its path.

    Raises:
        InputError: there is no such network or block, or it cannot be counted.
    """
    if text.endswith(".onnx"):
        from .onnx_file import count_onnx

        return count_onnx(text, image_size, block)
    name = text.removeprefix("torchvision:")
    known = find_known(name, image_size, block)
    if known is not None:
        return known
    from .counting import count
    from .find_network import block_path, find_network

    network, inputs = find_network(text, image_size)
    return count(network, inputs, name, image_size, block_path(network, block) if block else "")


def block_metrics_of(text: str, image_size: int) -> dict[str, NetworkMetrics]:
    """Metrics of every submodule that runs, by its path; loads torch.

    Arguments and errors as for :func:`metrics_of`; an ONNX file has no submodules.
    """
    from .counting import count_blocks
    from .find_network import find_network

    if text.endswith(".onnx"):
        from .onnx_file import refuse_blocks

        refuse_blocks(text)
    network, inputs = find_network(text, image_size)
    return count_blocks(network, inputs, text.removeprefix("torchvision:"), image_size)
