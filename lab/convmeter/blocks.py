"""Blocks of networks (section 4.1.2): their names, and their metrics."""

from __future__ import annotations

from difflib import get_close_matches

from torch import nn

from epochcast.analyzer.backends.convmeter.counting import count
from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, known_metrics, metrics_of
from epochcast.analyzer.backends.network.find import find_network
from epochcast.analyzer.errors import InputError


def block_metrics(network: str, image_size: int, block: str) -> tuple[str, dict[str, float]]:
    """The path of a block, by its path (``layer2.0``) or its class and number (``Bottleneck4``), and its metrics of one image.

    The whole network where ``block`` is empty. Raises InputError for an unknown network or block, and what cannot be counted.
    """
    if not block:
        return "", metrics_of(network, image_size)
    name, table = network.removeprefix("torchvision:"), known_metrics()
    known = table[(table["network"] == name) & (table["image_size"] == image_size)]
    known = known[(known["block"] == block) | (known["block_name"] == block)]
    if len(known):
        return str(known.iloc[0]["block"]), {column: float(known.iloc[0][column]) for column in COLUMNS}
    module, inputs = find_network(network, image_size)
    path, counted = block_path(module, block), count(module, inputs, name, image_size)
    if not counted.get(path, {}).get("flops"):
        raise InputError(f"the block {block!r} of {name} computes nothing; name one with a convolution or dense layer")
    return path, counted[path]


def block_path(network: nn.Module, text: str) -> str:
    """Path of a submodule by its path or by its class and number.

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
