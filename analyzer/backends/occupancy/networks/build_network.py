"""A network on the meta device, with what it is called with, from a configuration."""

from __future__ import annotations

from contextlib import suppress
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from epochcast.analyzer.backends.networks.blocks import lenet5
from epochcast.analyzer.backends.networks.find_network import built, find_network, import_torchvision
from epochcast.analyzer.backends.occupancy.configuration import NetworkConfiguration
from epochcast.analyzer.backends.occupancy.networks.known_networks import IMAGE, NETWORKS, SIZES, STEPS, complete
from epochcast.analyzer.backends.reader.failures import one_line
from epochcast.analyzer.backends.user_factory import import_factory, module_and_inputs
from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install

Built = tuple[nn.Module, tuple[Any, ...]]

_SMALLEST_LENET = 16
"""Pixels: below, two convolutions and two poolings leave nothing."""

_USUAL = {**STEPS, **IMAGE}
"""Sizes for a factory that requires them, where none is given."""


class Clip(nn.Module):
    """CLIP as the paper runs it: both towers in one step, one after the other, without the product of their answers.

    Args:
        image_tower: of timm, takes an image, answers features.
        text_tower: of transformers with its default configuration, takes tokens, answers an object with ``last_hidden_state``.
    """

    def __init__(self, image_tower: nn.Module, text_tower: nn.Module) -> None:
        super().__init__()
        self.image = image_tower
        self.text = text_tower

    def forward(self, image: Tensor, tokens: Tensor) -> tuple[Any, Any]:
        """Features of images (batch, channels, side, side) and of tokens (batch, sequence)."""
        return self.image(image), self.text(tokens).last_hidden_state


def build_network(configuration: NetworkConfiguration, device: str = "meta") -> Built:
    """Build a network, and what it is called with for a batch of the configuration's samples, without memory for either.

    On another device the network has weights and buffers, but its inputs are still on the meta device.

    Networks are in evaluation mode and have random weights. Their names are those of NETWORKS, the names that
    :func:`...networks.find_network.find_network` knows, or ``package.module:factory``. Such a factory gives (network, inputs),
    or the network alone, which is then called with images; sizes that are given are handed to its parameters of these names
    (``batch``, ``channels``, ``image_size``, ``sequence``, ``hidden``, ``layers``). It runs code of that module: take import
    paths from the user's own files alone.

    Raises:
        InputError: there is no such network, its library is not installed, it cannot be built, or a size does not apply.
    """
    configuration = complete(configuration)
    name, inputs = configuration.network, None
    if name in NETWORKS:
        network = _known(configuration, device)
    elif configuration.is_factory:
        network, inputs = built(name, lambda: _from_factory(configuration), device)
    else:
        network, _ = find_network(name, configuration.image_size, device)
    if inputs is None:
        _change_channels(network, configuration.channels, name)
        inputs = _inputs(configuration)
    else:
        inputs = tree_map_only(Tensor, lambda tensor: _samples(tensor, configuration.batch), inputs)
    return network.to(device).eval(), inputs


def _from_factory(configuration: NetworkConfiguration) -> tuple[nn.Module, tuple[Any, ...] | None]:
    """What a user's factory makes of the sizes that it has parameters for."""
    name = configuration.network
    factory = import_factory(name)
    parameters = signature(factory).parameters
    options = {"batch": 1} if "batch" in parameters else {}  # one sample is enough, of it a batch is made
    for size in SIZES:
        parameter = "sequence_length" if size == "sequence" and "sequence_length" in parameters else size
        value = getattr(configuration, size)
        if parameter in parameters:
            if value or parameters[parameter].default is Parameter.empty:
                options[parameter] = value or _USUAL[size].usual
        elif value and size not in IMAGE:
            raise InputError(f"the factory of {name!r} has no parameter {size} that could be {value}; leave it out")
    network, inputs = module_and_inputs(name, factory(**options))
    for size in IMAGE:
        if inputs is not None and getattr(configuration, size) and size not in parameters:
            raise InputError(f"the factory of {name!r} gives inputs of its own, but no parameter {size}; leave out the {size}")
    return network, inputs


def _samples(tensor: Tensor, batch: int) -> Tensor:
    """A tensor like the first sample of this one, of a batch of such samples, without values."""
    return torch.empty((batch, *tensor.shape[1:]) if tensor.dim() else (), dtype=tensor.dtype, device="meta")


def _known(configuration: NetworkConfiguration, device: str) -> nn.Module:
    name = configuration.network
    try:
        return built(name, lambda: (_of_library(configuration), None), device)[0]
    except InputError as error:
        missing = error.__cause__
        if isinstance(missing, ImportError):
            raise InputError(
                f"{name} needs {NETWORKS[name].library}, which cannot be imported ({one_line(missing)}); "
                f"{how_to_install('occupancy')}"
            ) from missing
        raise


def _of_library(configuration: NetworkConfiguration) -> nn.Module:
    """A network of NETWORKS, whose library is imported."""
    name, image_size = configuration.network, configuration.image_size
    match NETWORKS[name].library:
        case "":
            if image_size < _SMALLEST_LENET:
                raise InputError(f"lenet cannot have image size {image_size}; give {_SMALLEST_LENET} or more")
            return lenet5(image_size, classes=10)
        case "torch":
            kind = {"lstm": nn.LSTM, "rnn": nn.RNN, "gru": nn.GRU}[name]
            return kind(configuration.hidden, configuration.hidden, configuration.layers, batch_first=True)
        case "torchvision":
            return import_torchvision().models.get_model(name, weights=None)
        case "timm":
            return _timm(name, image_size)
    transformers = _import_transformers()
    match name:
        case "gpt2":
            return transformers.GPT2Model(transformers.GPT2Config(use_cache=False))
        case "bert":
            return transformers.BertModel(transformers.BertConfig())
        case "distilbert":
            return transformers.DistilBertModel(transformers.DistilBertConfig())
    return Clip(_timm(NETWORKS[name].tower, image_size), transformers.CLIPTextModel(transformers.CLIPTextConfig()))


def _timm(name: str, image_size: int) -> nn.Module:
    import_torchvision()  # which timm imports, as it is
    import timm

    size = {} if name.startswith("resnet") else {"img_size": image_size}  # transformers have positions or windows for one size
    return timm.create_model(name, pretrained=False, **size)


def _import_transformers() -> Any:
    with suppress(ImportError):  # where it is installed transformers imports it, as it is
        import_torchvision()
    import transformers

    return transformers


def _change_channels(network: nn.Module, channels: int, name: str) -> None:
    """Give the first convolution of a network as its library builds it another number of input channels, with random weights.

    0 and the usual ones change nothing; InputError where there is none that can have them.
    """
    usual = IMAGE["channels"].usual
    if channels in (0, usual):
        return
    first = next((module for module in network.modules() if isinstance(module, nn.Conv2d)), None)
    if first is None:
        raise InputError(f"{name} has no convolution that could take {channels} channels; leave out the channels")
    if first.in_channels != usual:  # the image is taken apart before
        raise InputError(f"the first convolution of {name} takes {first.in_channels} channels, not the image's; leave them out")
    if first.groups != 1:
        raise InputError(f"the first convolution of {name} has {first.groups} groups; leave out the channels")
    first.in_channels = channels
    shape = (first.out_channels, channels, *first.kernel_size)
    first.weight = nn.Parameter(0.05 * torch.randn(shape, dtype=first.weight.dtype, device=first.weight.device))


def _inputs(configuration: NetworkConfiguration) -> tuple[Tensor, ...]:
    """What a network without inputs of its own is called with; a user's takes images alone."""
    batch, tokens = configuration.batch, (configuration.batch, configuration.sequence)
    if configuration.is_factory:
        channels, side = (getattr(configuration, name) or size.usual for name, size in IMAGE.items())
        return (torch.empty(batch, channels, side, side, device="meta"),)
    inputs = []
    if configuration.image_size:
        side = configuration.image_size
        inputs.append(torch.empty(batch, configuration.channels, side, side, device="meta"))
    if configuration.hidden:
        inputs.append(torch.empty(*tokens, configuration.hidden, device="meta"))
    elif configuration.sequence:
        inputs.append(torch.empty(tokens, dtype=torch.long, device="meta"))
    return tuple(inputs)
