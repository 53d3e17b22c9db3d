"""Questions about a convolutional network, and how they are answered."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field, model_validator

from epochcast.analyzer.backends.convmeter import scalability
from epochcast.analyzer.backends.convmeter.answer import (
    RATE_OF,
    Batches,
    Block,
    ConvMeterAnswer,
    EpochCost,
    Fitted,
    Metrics,
    Rate,
    Scaling,
    Seconds,
    Step,
)
from epochcast.analyzer.backends.convmeter.metrics import NetworkMetrics, table_of
from epochcast.analyzer.backends.convmeter.network_metrics import metrics_of, top_block_metrics_of
from epochcast.analyzer.backends.convmeter.points import CHANNELS_LAST, PHASES
from epochcast.analyzer.backends.convmeter.predictor import NO_BLOCK, Cell, ConvNetPredictor
from epochcast.analyzer.backends.convmeter.training_memory import training_memory
from epochcast.analyzer.backends.distributed.rent import Rent, cheapest_rent, price_notes
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import Instance, load_instances
from epochcast.analyzer.plugins.question import Http, ModelFolder, NetworkQuestion, Option
from epochcast.analyzer.plugins.types import Name
from epochcast.regressor import Catalog, Gpu
from epochcast.regressor import InputError as UnknownGpu

USUAL_BATCH = 32

Count = Annotated[int, Field(ge=1, le=2**24)]
Devices = Annotated[int, Field(ge=1, le=2**16)]


class ConvMeterQuestion(NetworkQuestion):
    """A network, and the requested steps: of the whole by batch and number of devices, or of its blocks."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"network": "resnet50", "batches": [32, 64, 128]},
                {"network": "torchvision:mobilenet_v2", "image_size": 128, "dataset_size": 1281167, "epochs": 90},
            ]
        }
    )

    model: Annotated[ModelFolder, Field(description="Fitted model, written by `epochcast fit convmeter`.")] = None
    device: Annotated[
        Name | None,
        Http(),
        Option(metavar="NAME", default="its only one"),
        Field(description="Device to predict for, one of the model's."),
    ] = None
    precision: Annotated[
        Name | None,
        Http(),
        Option(metavar="NAME", default="the device's only one"),
        Field(description="Precision, one of the model's."),
    ] = None
    image_size: Annotated[
        int, Http(), Option(metavar="PIXELS"), Field(ge=1, le=4096, description="Side of the square images in pixels.")
    ] = 224
    batches: Annotated[
        list[Count],
        Http(),
        Option("--batch", "N", default="32"),
        Field(default_factory=list, max_length=64, description="Images per device and step."),
    ]
    global_batch: Annotated[
        Count | None,
        Http(),
        Option(metavar="N"),
        Field(description="Images per step over all devices (strong scaling), instead of a batch per device."),
    ] = None
    devices: Annotated[
        list[Devices],
        Http(),
        Option(metavar="N", default="1"),
        Field(default_factory=list, max_length=64, description="Total number of devices over all nodes."),
    ]
    devices_per_node: Annotated[
        Devices | None,
        Http(),
        Option(metavar="N", default="all in one node"),
        Field(description="Number of devices in a node."),
    ] = None
    blocks: Annotated[
        list[Name],
        Http(),
        Option("--block", "BLOCK"),
        Field(default_factory=list, max_length=64, description="Predict only this block, e.g. layer2.0 or Bottleneck4."),
    ]
    all_blocks: Annotated[
        bool, Http(), Option("--blocks"), Field(description="Predict each block in the network's sequence.")
    ] = False
    dataset_size: Annotated[
        int | None,
        Http(),
        Option(metavar="N"),
        Field(ge=1, le=10**12, description="Images in an epoch; adds its time and cost."),
    ] = None
    epochs: Annotated[
        int | None,
        Http(),
        Option(metavar="N"),
        Field(ge=1, le=10**6, description="Epochs in the whole job; adds its time and cost."),
    ] = None

    @model_validator(mode="after")
    def _of_what_belongs_together(self) -> Self:
        if self.batches and self.global_batch is not None:
            raise ValueError("a batch is per device and a global batch is over all devices; give only one")
        if self.of_blocks and (
            len(self.batches) > 1 or self.devices or self.global_batch is not None or self.dataset_size is not None
        ):
            raise ValueError(
                "blocks are predicted for one batch on one device; leave out devices, the global batch, the size of the data "
                "set and further batches"
            )
        if self.epochs is not None and self.dataset_size is None:
            raise ValueError("epochs need the size of the data set; give the images in an epoch")
        return self

    @property
    def of_blocks(self) -> bool:
        """Whether blocks are predicted rather than the network."""
        return bool(self.blocks) or self.all_blocks

    def series(self, metrics: NetworkMetrics) -> list[pd.DataFrame]:
        """Points by ascending number of devices, one table per batch."""
        row, devices = table_of([metrics]), sorted(set(self.devices or (1,)))
        if self.global_batch is not None:
            batches = [scalability.split_equally(self.global_batch, devices)]
        else:
            batches = [[batch] * len(devices) for batch in sorted(set(self.batches or [USUAL_BATCH]))]
        return [scalability.points_of(row, own, devices, self.devices_per_node) for own in batches]


def answer(question: ConvMeterQuestion, predictor: ConvNetPredictor, catalog: Catalog, prices: Path | None) -> ConvMeterAnswer:
    """Answer from fits to measured devices.

    Args:
        question: what is asked.
        predictor: fitted on some devices.
        catalog: GPUs.
        prices: the operator's own table; None: ours.

    Raises:
        InputError: the network is unknown or cannot be counted, the predictor does not have the device, or cannot answer.
    """
    cell = chosen_cell(predictor, question.device, question.precision, catalog)
    metrics = metrics_of(question.network, question.image_size)
    answered = partial(
        ConvMeterAnswer,
        network=metrics.network,
        image_size=question.image_size,
        device=cell.device,
        precision=cell.precision,
        fitted=fitted(cell),
    )
    channels_last = f"{cell.precision}{CHANNELS_LAST}"
    layout = [
        f"tensors are laid out channels first; for channels last, use precision {channels_last}"
        for each in predictor.cells
        if (each.device, each.precision) == (cell.device, channels_last)
    ]
    if question.of_blocks:
        batch = question.batches[0] if question.batches else USUAL_BATCH
        blocks, notes = _blocks(question, predictor, cell, metrics, batch)
        return answered(batch=batch, blocks=blocks, notes=[*notes, *layout])
    gpu = _gpu_of(cell.device, catalog)
    series = question.series(metrics)
    points = pd.concat(series, ignore_index=True)
    predicted = predictor.predict(points, cell.device, cell.precision)
    if len(points) > 1 and not any(f"{phase}_seconds" in predicted for phase in RATE_OF):
        raise InputError(
            f"neither training steps nor inference were measured on {cell.device} at {cell.precision}, so throughput cannot "
            "be predicted; give one batch and one number of devices"
        )
    instances, _ = ([], []) if question.dataset_size is None else load_instances(prices, catalog)
    job = _Job(question, metrics, cell.precision, gpu, instances)
    sizes = points[["batch", "devices", "nodes"]].to_numpy(dtype=int).tolist()
    steps = [job.step(phases, *size) for phases, size in zip(_phases(predicted), sizes, strict=True)]
    notes = [
        *predictor.notes(points, cell.device, cell.precision),
        *price_notes([job.rent(step.devices) for step in steps]),
        *layout,
    ]
    each = len(series[0])
    by_batch = [steps[begin : begin + each] for begin in range(0, len(steps), each)]
    return answered(
        metrics=_metrics(metrics),
        gpu=None if gpu is None else gpu.name,
        predictions=steps,
        scaling=[_scaling(question, group) for group in by_batch] if each > 1 else [],
        batches=[_batches(group) for group in zip(*by_batch, strict=True)] if len(by_batch) > 1 else [],
        notes=notes,
    )


def chosen_cell(predictor: ConvNetPredictor, device: str | None, precision: str | None, catalog: Catalog) -> Cell:
    """The device and precision of a question, which must be in the model; the model's only one where none is named.

    A GPU may have any name that the catalogue takes; capitals, blanks and hyphens do not matter. Without a precision, channels
    last is chosen only where channels first is missing.
    """
    there = "; ".join(f"{cell.device} at {cell.precision}" for cell in predictor.cells)
    fitting = [
        cell
        for cell in predictor.cells
        if (device is None or device == cell.device or _plain(device, catalog) == _plain(cell.device, catalog))
        and (precision is None or _bare(precision) == _bare(cell.precision))
    ]
    if not fitting:
        named = " at ".join(name for name in (device, precision) if name is not None)
        raise InputError(
            f"the model was not fitted for {named}; it has {there}; measure yours, fit a model with "
            "`epochcast fit convmeter` and name its folder"
        )
    exact = [cell for cell in fitting if cell.device == device] or fitting
    chosen = [cell for cell in exact if precision or not cell.precision.endswith(CHANNELS_LAST)] or exact
    if len(chosen) > 1:
        raise InputError(f"the model has several devices or precisions; choose a device and a precision: {there}")
    return chosen[0]


def fitted(cell: Cell) -> dict[str, Fitted]:
    """What each phase rests on."""
    return {phase: Fitted.model_validate(fit) for phase, fit in cell.fits.items()}


def _plain(device: str, catalog: Catalog) -> str:
    gpu = _gpu_of(device, catalog)
    return _bare(device if gpu is None else gpu.name)


def _bare(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _gpu_of(device: str, catalog: Catalog) -> Gpu | None:
    """The GPU of the device's name; None where the catalogue has none."""
    try:
        return catalog.resolve(device)
    except UnknownGpu:
        return None


def _metrics(metrics: NetworkMetrics) -> Metrics:
    return Metrics(**{name: metrics.values[name] for name in Metrics.model_fields})


def _phases(predicted: pd.DataFrame) -> list[dict[str, Seconds]]:
    """Of each row of ``ConvNetPredictor.predict``; phases that it lacks are left out."""

    def phases(row: Mapping[Hashable, float]) -> dict[str, Seconds]:
        return {
            phase: Seconds(seconds=row[f"{phase}_seconds"], low=row[f"{phase}_low"], high=row[f"{phase}_high"])
            for phase in PHASES
            if f"{phase}_seconds" in row and np.isfinite(row[f"{phase}_seconds"])
        }

    return [phases(row) for row in predicted.to_dict("records")]


@dataclass(frozen=True)
class _Job:
    """A network on a kind of device; without a GPU, memory and cost are unknown."""

    question: ConvMeterQuestion
    metrics: NetworkMetrics
    precision: str
    gpu: Gpu | None
    instances: Sequence[Instance]

    def rent(self, devices: int) -> Rent | None:
        """The cheapest way to rent so many; None without a size of the data set, or where no price is known."""
        if self.gpu is None or self.question.dataset_size is None:
            return None
        return cheapest_rent(self.instances, self.gpu.name, devices, min(devices, self.question.devices_per_node or devices))

    def step(self, phases: dict[str, Seconds], batch: int, devices: int, nodes: int) -> Step:
        """With throughput, and of training the memory, the epochs and their cost."""
        images, training, question = batch * devices, phases.get("step"), self.question
        rates = {
            name: Rate(value=images / time.seconds, low=time.high and images / time.high, high=time.low and images / time.low)
            for phase, name in RATE_OF.items()
            if (time := phases.get(phase))
        }
        memory = epoch = seconds = None
        if training is not None:
            memory = training_memory(self.metrics.values, batch, self.precision, None if self.gpu is None else self.gpu.memory)
            epoch = question.dataset_size and question.dataset_size / (images / training.seconds)
            seconds = epoch and question.epochs and question.epochs * epoch
        return Step(
            batch=batch,
            devices=devices,
            nodes=nodes,
            phases=phases,
            images_per_second=rates,
            memory=memory,
            epoch_seconds=epoch,
            seconds=seconds,
            cost=None if epoch is None else _cost(self.rent(devices), epoch, seconds),
        )


def _cost(rent: Rent | None, epoch: float, seconds: float | None) -> EpochCost | None:
    """Of an epoch and of all; None where no price is known."""
    if rent is None:
        return None
    return EpochCost(**rent.rented, usd_per_epoch=rent.usd(epoch), usd=None if seconds is None else rent.usd(seconds))


def _scaling_of(steps: Sequence[Step]) -> scalability.ScalingCurve:
    """Of training steps, of inference where none are predicted."""
    columns = [(step.batch, step.devices, step.phases[step.main_phase].seconds) for step in steps]
    return scalability.ScalingCurve(*np.array(columns, dtype=float).T)


def _scaling(question: ConvMeterQuestion, steps: Sequence[Step]) -> Scaling:
    """What more devices bring, from steps on several numbers of them in ascending order."""
    scaling = _scaling_of(steps)
    costs = np.array([step.cost.usd_per_epoch if step.cost else np.nan for step in steps])
    epochs = np.array([step.epoch_seconds or np.nan for step in steps])
    rents = scalability.cost_points(scaling.devices, epochs, costs)
    weak = question.global_batch is None
    return Scaling(
        mode="weak" if weak else "strong",
        batch=steps[0].batch if weak else None,
        devices=[step.devices for step in steps],
        images_per_second=scaling.images_per_second.tolist(),
        speed_up=scaling.speed_up.tolist(),
        efficiency=scaling.efficiency.tolist(),
        turning_point=scaling.turning_point,
        fastest=scaling.fastest,
        cheapest=None if rents is None else rents.cheapest,
        knee=None if rents is None else rents.knee,
    )


def _batches(steps: Sequence[Step]) -> Batches:
    """What larger batches bring, from steps on one number of devices."""
    return Batches(
        devices=steps[0].devices,
        large_enough=_scaling_of(steps).large_enough,
        largest=max(step.batch for step in steps),
    )


def _blocks(
    question: ConvMeterQuestion, predictor: ConvNetPredictor, cell: Cell, network_metrics: NetworkMetrics, batch: int
) -> tuple[list[Block], list[str]]:
    """The named blocks of a network, else all that it is a sequence of; and notes on them."""
    network, size = question.network, question.image_size
    parts = [metrics_of(network, size, name) for name in question.blocks] or top_block_metrics_of(network, size)
    counted = [*parts, network_metrics]
    points = table_of(counted).assign(batch=batch, devices=1, nodes=1)
    phases = _phases(predictor.predict(points, cell.device, cell.precision))
    blocks = [
        Block(block=metrics.block, metrics=_metrics(metrics), phases=own) for metrics, own in zip(counted, phases, strict=True)
    ]
    return blocks, [*predictor.notes(points.tail(1), cell.device, cell.precision), *_small(cell, parts)]


def _small(cell: Cell, blocks: Sequence[NetworkMetrics]) -> list[str]:
    """A note if no block was measured, or if blocks are smaller than any measured point."""
    if not any(fit.blocks for fit in cell.fits.values()):
        return [NO_BLOCK]
    least = min(fit.ranges["flops"][0] for fit in cell.fits.values())
    small = sum(block.values["flops"] < least for block in blocks)
    return [
        f"{small} of {len(blocks)} blocks {'has' if small == 1 else 'have'} fewer FLOPs than anything measured "
        f"({least / 1e6:.3g} MFLOPs per image): their intervals are too narrow"
    ] * bool(small)
