"""The networks of Table II of the DNN-occu paper and their relatives: where each comes from, and which sizes it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from epochcast.analyzer.backends.occupancy.configuration import WIDTHS, NetworkConfiguration
from epochcast.analyzer.errors import InputError

SIZES = ("channels", "image_size", "sequence", "hidden", "layers")
"""Fields of NetworkConfiguration that apply to some networks only."""

LARGEST_BATCH = 2**20


class Size(NamedTuple):
    """What one size of a configuration is where it is not given, and the most that it may be."""

    usual: int
    most: int


@dataclass(frozen=True)
class KnownNetwork:
    """A network by name.

    Args:
        library: that defines it: ``torchvision``, ``timm``, ``transformers``, ``torch``, or empty for our own modules.
        sizes: by the names of NetworkConfiguration's fields, those that apply.
        tower: of a multimodal network, timm's name of the image tower.
    """

    library: str
    sizes: Mapping[str, Size] = field(default_factory=dict)
    tower: str = ""


IMAGE: Mapping[str, Size] = {"channels": Size(3, 4096), "image_size": Size(224, 2**14)}
STEPS: Mapping[str, Size] = {"sequence": Size(64, 2**16), "hidden": Size(256, 2**14), "layers": Size(1, 64)}


def _tokens(most: int) -> dict[str, Size]:
    """As many as a network has positions for."""
    return {"sequence": Size(min(128, most), most)}


def _of(library: str, sizes: Mapping[str, Size], names: str) -> dict[str, KnownNetwork]:
    return {name: KnownNetwork(library, sizes) for name in names.split()}


NETWORKS: Mapping[str, KnownNetwork] = {
    **_of("", IMAGE, "lenet"),
    **_of("torchvision", IMAGE, "alexnet vgg11 vgg13 vgg16 resnet18 resnet34 resnet50 convnext_base mobilenet_v2"),
    **_of("torchvision", IMAGE, "efficientnet_b0 densenet121 squeezenet1_0 regnet_y_400mf shufflenet_v2_x1_0"),
    **_of("torch", STEPS, "lstm rnn gru"),
    **_of("timm", IMAGE, "vit_tiny_patch16_224 vit_small_patch16_224 vit_base_patch16_224"),
    **_of("timm", IMAGE, "swin_tiny_patch4_window7_224 swin_small_patch4_window7_224 maxvit_tiny_tf_224"),
    **_of("transformers", _tokens(512), "distilbert bert"),
    **_of("transformers", _tokens(1024), "gpt2"),
    **{
        name: KnownNetwork("timm and transformers", {**IMAGE, **_tokens(77)}, tower)
        for name, tower in {
            "clip_rn50": "resnet50_clip",
            "clip_vit_b16": "vit_base_patch16_clip_224",
            "clip_vit_b32": "vit_base_patch32_clip_224",
        }.items()
    },
}
"""By name, in the default form of their library and with random weights: Table II's twenty, and ten more."""


def complete(configuration: NetworkConfiguration) -> NetworkConfiguration:
    """The configuration with the usual value of every size that applies and is not given.

    A name that is not in NETWORKS (see :func:`.build_network.build_network`) may have any size; a network for images is then
    usual, unless it is a path or a factory, which have sizes of their own.

    Raises:
        InputError: a size does not apply to the network or is out of its range, or there is no such precision.
    """
    name = configuration.network
    if not 1 <= configuration.batch <= LARGEST_BATCH:
        raise InputError(f"{name} cannot run with a batch of {configuration.batch}; give a batch from 1 to {LARGEST_BATCH}")
    if configuration.precision not in WIDTHS:
        raise InputError(f"unknown precision {configuration.precision!r}; give one of {', '.join(WIDTHS)}")
    if name in NETWORKS:
        sizes = NETWORKS[name].sizes
    elif name.endswith(".onnx") or configuration.is_factory:
        sizes = dict.fromkeys(SIZES, Size(0, 2**16))
    else:
        sizes = IMAGE
    usual: dict[str, int] = {}
    for size in SIZES:
        value, called = getattr(configuration, size), size.replace("_", " ")
        if not value:
            usual[size] = sizes[size].usual if size in sizes else 0
        elif size not in sizes:
            known = ", ".join(own.replace("_", " ") for own in sizes)
            raise InputError(f"{name} has no {called}, but {called} {value} was given; leave it out (its sizes are: {known})")
        elif not 1 <= value <= sizes[size].most:
            raise InputError(f"{name} cannot have {called} {value}; give one from 1 to {sizes[size].most}")
    return replace(configuration, **usual)  # type: ignore[arg-type]
