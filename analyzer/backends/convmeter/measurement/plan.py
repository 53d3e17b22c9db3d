"""What to measure, in an order in which any first part is a fair sample."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from epochcast.analyzer.backends.convmeter.metrics import NetworkMetrics
from epochcast.analyzer.backends.convmeter.network_metrics import metrics_of
from epochcast.analyzer.backends.distributed.precision import Precision
from epochcast.analyzer.errors import InputError

Device = Literal["cpu", "cuda"]

NETWORKS = (
    "alexnet",
    "convnext_tiny",
    "densenet121",
    "densenet169",
    "efficientnet_b0",
    "efficientnet_b1",
    "efficientnet_b2",
    "googlenet",
    "inception_v3",
    "mnasnet0_5",
    "mnasnet1_0",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
    "regnet_x_400mf",
    "regnet_x_8gf",
    "regnet_y_400mf",
    "regnet_y_800mf",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnext50_32x4d",
    "shufflenet_v2_x0_5",
    "shufflenet_v2_x1_0",
    "squeezenet1_0",
    "squeezenet1_1",
    "vgg11",
    "vgg11_bn",
    "vgg16",
    "wide_resnet50_2",
)
"""torchvision's names: the networks of the paper's tables, and others of as many designs."""

BLOCKS = (
    ("resnext50_32x4d", "Bottleneck1"),
    ("resnet50", "Bottleneck4"),
    ("inception_v3", "BasicConv2d4"),
    ("resnet18", "BasicBlock7"),
    ("mobilenet_v3_large", "InvertedResidual2"),
    ("regnet_x_8gf", "ResBottleneckBlock3"),
    ("wide_resnet50_2", "Bottleneck9"),
    ("efficientnet_b0", "MBConv2"),
    ("mobilenet_v2", "InvertedResidual3"),
    ("squeezenet1_0", "Fire2"),
    ("googlenet", "Inception2"),
    ("convnext_tiny", "CNBlock4"),
)
"""Networks and blocks of them: the nine of Table 2, and three more designs."""

IMAGE_SIZES = (32, 64, 128, 224)
BATCHES = {"cpu": (1, 2, 4, 8, 16), "cuda": (1, 2, 4, 8, 16, 32, 64, 128, 256)}

MOST_FLOPS = {"cpu": 4e10, "cuda": 2e13}
"""Of a forward pass; with more, an item would take minutes."""


@dataclass(frozen=True)
class PlannedPoint:
    """A point to measure: a network or block at an image size, with the images per device and the precision."""

    metrics: NetworkMetrics
    batch: int
    precision: Precision


@dataclass(frozen=True)
class MeasurementPlan:
    """What to measure, and what is not in it.

    Attributes:
        items: in order.
        too_long: combinations of more than :data:`MOST_FLOPS`.
        unsupported: reasons by ``NETWORK at SIZE px``.
    """

    items: Sequence[PlannedPoint]
    too_long: int = 0
    unsupported: Mapping[str, str] = field(default_factory=dict)


def plan(
    networks: Sequence[str],
    blocks: Sequence[tuple[str, str]],
    image_sizes: Sequence[int],
    batches: Sequence[int],
    precisions: Sequence[Precision],
    device: Device,
    seed: int,
) -> MeasurementPlan:
    """Every combination of at most :data:`MOST_FLOPS`, in random order.

    The order takes turns between networks and blocks: wherever it stops, all have been measured equally often, at random sizes,
    batches and precisions.

    Args:
        networks: names that :func:`..network_metrics.metrics_of` knows.
        blocks: names of networks and of blocks in them.
        image_sizes: pixels.
        batches: images per device and step.
        precisions: how to compute.
        device: which limit holds.
        seed: of the order.

    Raises:
        InputError: nothing can be measured, or a network outside :data:`NETWORKS` runs at no size.
    """
    rng = random.Random(seed)
    too_long = 0
    unsupported: dict[str, str] = {}
    groups: dict[tuple[str, str], list[PlannedPoint]] = {}
    for name in networks:
        if name.endswith(".onnx"):
            raise InputError(f"{name!r} can be counted but not run; name the network that it was exported from")
    for network, block in [*((name, "") for name in networks), *blocks]:
        counted: list[NetworkMetrics] = []
        for size in dict.fromkeys(image_sizes):
            try:
                counted.append(metrics_of(network, size, block))
            except InputError as error:
                unsupported[f"{network} {block}".rstrip() + f" at {size} px"] = str(error)
        if not counted and network not in NETWORKS:
            raise InputError(next(reversed(unsupported.values())))
        every = [
            PlannedPoint(*combination)
            for combination in itertools.product(counted, dict.fromkeys(batches), dict.fromkeys(precisions))
        ]
        group = [item for item in every if item.batch * item.metrics.values["flops"] <= MOST_FLOPS[device]]
        too_long += len(every) - len(group)
        rng.shuffle(group)
        if group:  # a block may be named in two ways
            groups[group[0].metrics.network, group[0].metrics.block] = group
    items = []
    for turn in itertools.zip_longest(*groups.values()):
        some = [item for item in turn if item is not None]
        rng.shuffle(some)
        items += some
    if not items:
        too_large = "every requested measurement takes minutes here; give smaller image sizes, batches or networks"
        raise InputError(next(iter(unsupported.values()), too_large))
    return MeasurementPlan(items, too_long, unsupported)
