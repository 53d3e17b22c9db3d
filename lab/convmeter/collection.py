"""Collects points: plans what to measure, and measures what is not in the file yet, until the time is over."""

from __future__ import annotations

import gc
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, KEYS, PHASES, TIMES
from epochcast.analyzer.backends.convmeter.scaling import training_memory
from epochcast.analyzer.backends.distributed.plan.job import Precision
from epochcast.analyzer.backends.network.find import find_network
from epochcast.analyzer.errors import InputError
from lab.convmeter.blocks import block_metrics
from lab.convmeter.device import Device, Timing, cpu_name, failure_reason, free_bytes, tf32
from lab.convmeter.phases import CudaTimeline, HostTimeline, inference, time_phases, training
from lab.growing_table import GrowingTable

NETWORKS = (
    *("alexnet", "convnext_tiny", "densenet121", "densenet169", "efficientnet_b0", "efficientnet_b1", "efficientnet_b2"),
    *("googlenet", "inception_v3", "mnasnet0_5", "mnasnet1_0", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small"),
    *("regnet_x_400mf", "regnet_x_8gf", "regnet_y_400mf", "regnet_y_800mf", "resnet18", "resnet34", "resnet50", "resnet101"),
    *("resnext50_32x4d", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "squeezenet1_0", "squeezenet1_1", "vgg11", "vgg11_bn"),
    *("vgg16", "wide_resnet50_2"),
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

_SEED = 0  # of the random order, which is the same each time, so that a run goes on where another ended
_MOST_OF_FREE = 0.5
_MOST_KEPT = 0.25  # of the memory that is free


HEADER = (*KEYS, *TIMES, *(f"{phase}_iqr" for phase in PHASES), "rounds", "optimizer", "software", *COLUMNS)
"""``PHASE_iqr``: interquartile range, seconds; ``rounds``: how often each phase was repeated (the fewest of a row's)."""

_IDENTITY = ("precision", "network", "block", "image_size", "batch", "devices", "nodes")


def points_file(path: Path, place: Mapping[str, str]) -> GrowingTable:
    """The file of points, begun or continued; ``place`` are its device, optimizer and software.

    Raises:
        InputError: as :class:`GrowingTable`.
    """
    return GrowingTable(path, HEADER, place, _IDENTITY)


@dataclass(frozen=True)
class PlannedPoint:
    """A point to measure: a network or block (by its path) at an image size, its metrics, images per step and precision."""

    network: str
    block: str
    image_size: int
    metrics: Mapping[str, float]
    batch: int
    precision: Precision

    @property
    def identity(self) -> dict[str, Any]:
        """Of its row in the file."""
        own = {name: getattr(self, name) for name in ("network", "block", "image_size", "batch")}
        return {**own, "precision": self.precision.name, "devices": 1, "nodes": 1}


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


@dataclass(frozen=True)
class CollectionResult:
    """Outcome of a collection.

    Attributes:
        rows: in the file.
        new: of them.
        left: items for another run.
        failed: items without a row.
        reasons: why these, or a phase of others, could not be run, and how often.
    """

    rows: int
    new: int
    left: int
    failed: int
    reasons: Mapping[str, int] = field(default_factory=dict)


def plan(
    networks: Sequence[tuple[str, str]],
    image_sizes: Sequence[int],
    batches: Sequence[int],
    precisions: Sequence[Precision],
    device: Device,
) -> MeasurementPlan:
    """Every combination of at most :data:`MOST_FLOPS`, in random order.

    The order takes turns between networks and blocks: wherever it stops, all have been measured equally often, at random sizes,
    batches and precisions.

    Args:
        networks: names as :func:`.blocks.block_metrics` knows them, each with that of a block, or empty.
        image_sizes: pixels.
        batches: images per device and step.
        precisions: how to compute.
        device: which limit holds.

    Raises:
        InputError: nothing can be measured, or a network outside :data:`NETWORKS` runs at no size.
    """
    rng, too_long = random.Random(_SEED), 0
    unsupported: dict[str, str] = {}
    groups: dict[tuple[str, str], list[PlannedPoint]] = {}
    for network, block in networks:
        if network.endswith(".onnx"):
            raise InputError(f"{network!r} can be counted but not run; name the network that it was exported from")
        counted: list[tuple[int, str, Mapping[str, float]]] = []
        for size in dict.fromkeys(image_sizes):
            try:
                counted.append((size, *block_metrics(network, size, block)))
            except InputError as error:
                unsupported[f"{network} {block}".rstrip() + f" at {size} px"] = str(error)
        if not counted and network not in NETWORKS:
            raise InputError(next(reversed(unsupported.values())))
        name = network.removeprefix("torchvision:")
        every = [
            PlannedPoint(name, path, size, metrics, batch, precision)
            for (size, path, metrics), batch, precision in itertools.product(
                counted, dict.fromkeys(batches), dict.fromkeys(precisions)
            )
        ]
        group = [item for item in every if item.batch * item.metrics["flops"] <= MOST_FLOPS[device]]
        too_long += len(every) - len(group)
        rng.shuffle(group)
        if group:  # a block may be named in two ways
            groups[group[0].network, group[0].block] = group
    items = []
    for turn in itertools.zip_longest(*groups.values()):
        some = [item for item in turn if item is not None]
        rng.shuffle(some)
        items += some
    if not items:
        too_large = "every requested measurement takes minutes here; give smaller image sizes, batches or networks"
        raise InputError(next(iter(unsupported.values()), too_large))
    return MeasurementPlan(items, too_long, unsupported)


def collect(
    items: Sequence[PlannedPoint], path: Path, device: Device, budget_seconds: float, progress: Callable[[int, int], None]
) -> CollectionResult:
    """Measure items in order; each is a row of the file as soon as it is measured.

    Args:
        items: what to measure.
        path: the file, begun or continued.
        device: where to measure.
        budget_seconds: no new item begins after it.
        progress: called with items done and items in all.

    Raises:
        InputError: the file holds something else, or cannot be written; the GPU has failed.
    """
    begin, threads = time.monotonic(), torch.get_num_threads()
    processor = f"{cpu_name()} ({threads} thread{'s' if threads > 1 else ''})"
    name = str(torch.cuda.get_device_name()) if device == "cuda" else processor
    file = points_file(path, {"device": name, "optimizer": "adam", "software": f"torch {torch.__version__}"})
    missing = [item for item in items if item.identity not in file]
    bench = _Bench(device)
    done = new = 0
    while done < len(missing) and (done == 0 or time.monotonic() - begin < budget_seconds):
        item = missing[done]
        if measured := bench.measure(item):
            file.append({**item.identity, **measured, **item.metrics})
        done += 1
        new += bool(measured)
        progress(done, len(missing))
    return CollectionResult(file.rows, new, len(missing) - done, done - new, bench.reasons)


class _Bench:
    """Measures items on a device, and counts reasons of failures; keeps networks while they take little memory."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._kept: dict[tuple[str, int], tuple[nn.Module, tuple[Any, ...]]] = {}
        # One thread's own time leaves out what other programs take of the processors.
        host = HostTimeline(time.process_time if torch.get_num_threads() == 1 else time.perf_counter)
        self._timeline = CudaTimeline() if device == "cuda" else host
        self.reasons: Counter[str] = Counter()

    def measure(self, item: PlannedPoint) -> dict[str, Any]:
        """Columns of the item's row: family, seconds by phase and their spread, rounds; empty if nothing could be run."""
        timings: dict[str, Timing] = {}
        family = ""
        with tf32(item.precision.tf32):
            try:
                module, inputs, family = self._ready(item)
                phases, _ = time_phases(inference(module, inputs, item.precision, self._timeline))
                timings["inference"] = phases[0]
                phases, step = time_phases(training(module, inputs, item.precision, self._timeline))
                timings |= dict(zip(PHASES[1:], [*phases, step], strict=True))
            except Exception as error:  # a user's network may raise anything
                reason = failure_reason(error)
                self.reasons[reason] += 1
                self._recover(reason, item)
        if not timings:
            return {}
        seconds = {f"{phase}_seconds": timing.seconds for phase, timing in timings.items()}
        spreads = {f"{phase}_iqr": timing.iqr for phase, timing in timings.items()}
        return {"family": family, **seconds, **spreads, "rounds": min(timing.rounds for timing in timings.values())}

    def _ready(self, item: PlannedPoint) -> tuple[nn.Module, tuple[Any, ...], str]:
        """The network or block on the device, its inputs at the item's batch, and the network's family.

        A block gets random tensors as large as its inputs within the network, which need a gradient too. Networks of a Python
        module are a family: torchvision and timm have a module for each design.
        """
        # torch reports full GPU memory; where main memory is full, the system kills the process.
        if self._device == "cpu":
            needed = training_memory(item.metrics, item.batch, item.precision.name, None)
            if needed is not None and needed.high > _MOST_OF_FREE * free_bytes("cpu"):
                raise MemoryError
        network, image = self._network(item.network, item.image_size)
        family = type(network).__module__.rpartition(".")[2]
        module = network.get_submodule(item.block)
        inputs = _block_inputs(network, image, module) if item.block else image

        def random_like(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point():
                return torch.zeros((item.batch, *tensor.shape[1:]), dtype=tensor.dtype, device=self._device)
            return torch.randn((item.batch, *tensor.shape[1:]), device=self._device).requires_grad_(bool(item.block))

        return module, tree_map_only(Tensor, random_like, inputs), family

    def _network(self, name: str, image_size: int) -> tuple[nn.Module, tuple[Any, ...]]:
        if (name, image_size) not in self._kept:
            held = sum(weights.nbytes for network, _ in self._kept.values() for weights in network.parameters())
            if held > _MOST_KEPT * free_bytes(self._device):
                self._clear()
            network, image = find_network(name, image_size, "cpu")
            image = tree_map_only(Tensor, lambda tensor: tensor.to(self._device), image)
            self._kept[name, image_size] = network.to(self._device), image
        return self._kept[name, image_size]

    def _clear(self) -> None:
        """Give all memory back."""
        self._kept.clear()
        gc.collect()
        if self._device == "cuda":
            torch.cuda.empty_cache()

    def _recover(self, reason: str, item: PlannedPoint) -> None:
        """Free memory; raises InputError if the GPU no longer answers."""
        try:
            self._clear()
            if self._device == "cuda":
                torch.cuda.synchronize()
        except RuntimeError as error:
            raise InputError(
                f"the GPU no longer answers after {item.network} at {item.image_size} px and batch {item.batch} "
                f"({reason}); run the command again: it continues the file"
            ) from error


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
