"""The networks of Table II of the DNN-occu paper and their relatives, and the user's: which sizes each takes, what it is, and
its graph, read once in a process; and a graph on a GPU, which labels belong to, and which is predicted.

torch is loaded when one is built.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochcast.analyzer.backends.distributed.models.configuration import transformers
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install
from epochcast.regressor import Gpu

if TYPE_CHECKING:
    from torch import Tensor, nn


WIDTHS = {"fp32": 4, "fp16": 2, "bf16": 2}
"""Bytes of a number, by precision."""


@dataclass(frozen=True)
class NetworkConfiguration:
    """A network as it runs (Table II of the DNN-occu paper); its sizes are the question's, 0 where one does not apply."""

    network: str
    batch: int
    image_size: int = 0
    sequence: int = 0
    precision: str = "fp32"

    @property
    def one_sample(self) -> NetworkConfiguration:
        """What an export depends on: the batch and the precision only rescale it."""
        return replace(self, batch=1, precision="fp32")

    @property
    def is_factory(self) -> bool:
        """Whether the network is a user's own ``package.module:factory``."""
        return ":" in self.network and self.network.split(":")[0] not in ("torchvision", "timm")


@dataclass(frozen=True)
class Sample:
    """A configuration, its graph at its batch size, and the GPU that it runs on."""

    configuration: NetworkConfiguration
    graph: ComputationGraph
    gpu: Gpu


SIZES = ("image_size", "sequence")
"""Fields of NetworkConfiguration that apply to some networks only."""

_HIDDEN = 256
"""Of recurrent networks, which have one layer."""

_IMAGE, _LARGEST_IMAGE = 224, 2**14
"""Pixels of a side where it is not given, and the most that it may have."""

_TEXT_NETWORKS = {"distilbert": "DistilBert", "bert": "Bert", "gpt2": "GPT2"}
"""As transformers calls their classes."""

SEQUENCES = {
    **dict.fromkeys(("lstm", "rnn", "gru"), (64, 2**16)),
    **dict.fromkeys(("distilbert", "bert"), (128, 512)),
    "gpt2": (128, 1024),
}
"""Networks that take sequences, in the default form of their library: the length that is not given, and the largest."""


def complete(configuration: NetworkConfiguration) -> NetworkConfiguration:
    """The configuration with the usual value of the size that applies, if it is not given.

    A name that is not in SEQUENCES takes images. A factory or a file has a size of its own, but may be given the image's side.

    Raises:
        InputError: a size does not apply to the network or is out of its range.
    """
    name = configuration.network
    size, other = ("sequence", "image_size") if name in SEQUENCES else ("image_size", "sequence")
    usual, most = SEQUENCES.get(name, (_IMAGE, _LARGEST_IMAGE))
    if configuration.is_factory or name.endswith(".onnx"):
        usual = 0
    value, called = getattr(configuration, size), size.replace("_", " ")
    if wrong := getattr(configuration, other):
        no = other.replace("_", " ")
        raise InputError(f"{name} has no {no}, but {no} {wrong} was given; leave it out (its size is the {called})")
    if value and not 1 <= value <= most:
        raise InputError(f"{name} cannot have {called} {value}; give one from 1 to {most}")
    sizes: dict[str, Any] = {size: value or usual}
    return replace(configuration, **sizes)


def build_network(configuration: NetworkConfiguration, device: str = "meta") -> tuple[nn.Module, tuple[Any, ...]]:
    """Build a network, and what it is called with for a batch of the configuration's samples, without memory for either.

    On another device the network has weights and buffers, but its inputs are still on the meta device.

    Networks are in evaluation mode and have random weights. Their names are those of SEQUENCES, lenet, or what
    :func:`..network.find.find_network` knows.

    Raises:
        InputError: there is no such network, its library is not installed, it cannot be built, or a size does not apply.
    """
    import torch
    from torch import Tensor
    from torch.utils._pytree import tree_map_only

    from epochcast.analyzer.backends.network.find import built, find_network

    configuration = complete(configuration)
    name, image_size = configuration.network, configuration.image_size
    if configuration.is_factory:
        network, sample = find_network(name, image_size or _IMAGE, device)
        return network.to(device).eval(), tree_map_only(
            Tensor,
            lambda one: torch.empty((configuration.batch, *one.shape[1:]) if one.dim() else (), dtype=one.dtype, device="meta"),
            sample,
        )
    if image_size and name != "lenet":
        network, _ = find_network(name, image_size, device)
    else:
        network, _ = built(name, lambda: (_special(configuration), None), device)
    return network.to(device).eval(), _inputs(configuration)


def _special(configuration: NetworkConfiguration) -> nn.Module:
    """A network that no library of ConvNets has by this name."""
    from torch import nn

    name, image_size = configuration.network, configuration.image_size
    if name == "lenet":
        return lenet5(image_size, classes=10)
    if name in ("lstm", "rnn", "gru"):
        kind = {"lstm": nn.LSTM, "rnn": nn.RNN, "gru": nn.GRU}[name]
        return kind(_HIDDEN, _HIDDEN, batch_first=True)
    settings = getattr(transformers(), f"{_TEXT_NETWORKS[name]}Config")()
    settings.use_cache = False
    return getattr(transformers(), f"{_TEXT_NETWORKS[name]}Model")(settings)


def lenet5(image_size: int, classes: int) -> nn.Module:
    """Build LeNet-5: LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998, section II-B.

    As the paper trains it: three input channels, max pooling and ReLU, and all maps joined in the second convolution.
    """
    from torch import nn

    left = ((image_size - 4) // 2 - 4) // 2
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        nn.Flatten(),
        *(nn.Linear(16 * left * left, 120), nn.ReLU(inplace=True)),
        *(nn.Linear(120, 84), nn.ReLU(inplace=True)),
        nn.Linear(84, classes),
    )


def _inputs(configuration: NetworkConfiguration) -> tuple[Tensor, ...]:
    """What a network is called with."""
    import torch

    batch, side = configuration.batch, configuration.image_size
    if side:
        return (torch.empty(batch, 3, side, side, device="meta"),)
    if configuration.network in _TEXT_NETWORKS:
        return (torch.empty(batch, configuration.sequence, dtype=torch.long, device="meta"),)
    return (torch.empty(batch, configuration.sequence, _HIDDEN, device="meta"),)


def graph_of(configuration: NetworkConfiguration) -> ComputationGraph:
    """The graph of a configuration at its batch size.

    A network is read for its other sizes once, and remembered by this process. What is the user's own, a
    ``package.module:factory`` or a file, may change: it is never remembered.

    Args:
        configuration: its network is what :func:`build_network` takes. Sizes that are not given have the usual
            values, see :func:`complete`.

    Raises:
        InputError: there is no such network, a size does not apply to it, its library or PyTorch is missing, or it cannot be
            read.
    """
    completed = complete(configuration)
    if completed.is_factory or completed.network.endswith(".onnx"):
        return _read(completed)
    return _remembered(completed.one_sample).at_batch(completed.batch)


def _read(configuration: NetworkConfiguration) -> ComputationGraph:
    name, batch = configuration.network, configuration.batch
    try:
        from epochcast.analyzer.backends.network.onnx_file import read_onnx
        from epochcast.analyzer.backends.occupancy.graph.from_module import graph_of_module
    except ImportError as error:
        raise InputError(
            f"{name} must be read by PyTorch, which cannot be loaded ({error}); {how_to_install('occupancy')}"
        ) from error
    if not name.endswith(".onnx"):
        return graph_of_module(*build_network(configuration), name, batch)
    network, inputs, samples = read_onnx(name, configuration.image_size, batch)  # which may be for a batch of its own
    return graph_of_module(network, inputs, Path(name).name, samples).at_batch(batch)


@lru_cache(maxsize=1024)
def _remembered(configuration: NetworkConfiguration) -> ComputationGraph:
    return _read(configuration)
