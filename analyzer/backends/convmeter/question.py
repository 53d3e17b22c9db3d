"""What may be asked about a convolutional network, and its whole answer: the command line prints it, the service gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ....regressor import Catalog, Gpu
from ....regressor import InputError as UnknownGpu
from ...errors import InputError
from ...instances import Instance
from ..distributed.rent import Rent, cheapest_rent, price_notes
from .answer import RATE_OF, Training, fitted_json, metrics_json, phases_json, predictions_json, scaling_json, scaling_of
from .metrics import NetworkMetrics, table_of
from .network_metrics import metrics_of, top_block_metrics_of
from .points import CHANNELS_LAST
from .predictor import NO_BLOCK, Cell, Predictor
from .scalability import strong_scaling, weak_scaling

USUAL_BATCH = 32


@dataclass(frozen=True)
class Question:
    """A network, where it runs and how much of it.

    Attributes:
        network: see :func:`.network_metrics.metrics_of`.
        image_size: side of the square image, pixels.
        device, precision: of the predictor; None: its only one.
        batches: images on each device, of several steps; none: 32.
        global_batch: images of a step of all devices, instead of ``batches``.
        devices: how many in all nodes, of several steps; none: 1.
        devices_per_node: None: all in one node.
        blocks: paths or names of blocks that are asked for alone.
        all_blocks: whether all blocks are that the network is a sequence of.
        dataset_size: images of an epoch; None: nothing is said about epochs and their cost.
        epochs: how many; needs ``dataset_size``.
        gpu: which GPU the device is, for memory and cost; None: as the device's name says.

    Raises:
        InputError: what does not belong together.
    """

    network: str
    image_size: int = 224
    device: str | None = None
    precision: str | None = None
    batches: Sequence[int] = ()
    global_batch: int | None = None
    devices: Sequence[int] = ()
    devices_per_node: int | None = None
    blocks: Sequence[str] = ()
    all_blocks: bool = False
    dataset_size: int | None = None
    epochs: int | None = None
    gpu: str | None = None

    def __post_init__(self) -> None:
        if self.batches and self.global_batch is not None:
            raise InputError("a batch is of each device and a global batch of all together; give one of them")
        if self.of_blocks and (
            len(self.batches) > 1 or self.devices or self.global_batch is not None or self.dataset_size is not None
        ):
            raise InputError(
                "blocks are predicted for one batch on one device; leave out devices, the global batch, the size of the data "
                "set and further batches"
            )
        if self.epochs is not None and self.dataset_size is None:
            raise InputError("epochs are given without the size of the data set; say how many images an epoch has")

    @property
    def of_blocks(self) -> bool:
        """Whether parts of the network are asked for."""
        return bool(self.blocks) or self.all_blocks

    def series(self, metrics: NetworkMetrics) -> list[pd.DataFrame]:
        """Points by ascending number of devices, one table per batch."""
        row, devices = table_of([metrics]), self.devices or (1,)
        if self.global_batch is not None:
            return [strong_scaling(row, self.global_batch, devices, self.devices_per_node)]
        batches = sorted(set(self.batches or [USUAL_BATCH]))
        return [weak_scaling(row, batch, devices, self.devices_per_node) for batch in batches]


def answer_json(question: Question, predictor: Predictor, catalog: Catalog, instances: Sequence[Instance]) -> dict[str, Any]:
    """The answer as JSON has it; NaN where a figure has no value.

    Args:
        question: what is asked.
        predictor: fitted on some devices.
        catalog: GPUs.
        instances: with prices, for the cost of epochs; may be empty.

    Raises:
        InputError: the network is unknown or cannot be counted, the predictor does not have the device, or cannot answer.
    """
    cell = chosen_cell(predictor, question.device, question.precision, catalog)
    metrics = metrics_of(question.network, question.image_size)
    asked: dict[str, Any] = {
        "network": metrics.network,
        "image_size": question.image_size,
        "device": cell.device,
        "precision": cell.precision,
        "fitted": fitted_json(cell),
    }
    if question.of_blocks:
        answer = asked | _blocks(predictor, cell, question, metrics)
    else:
        gpu = _gpu_of(question.gpu, cell.device, catalog)
        answer = asked | _network(predictor, cell, metrics, question, gpu, instances)
    other = f"{cell.precision}{CHANNELS_LAST}"
    if any((one.device, one.precision) == (cell.device, other) for one in predictor.cells):
        answer["notes"].append(f"tensors are laid out channels first; channels last is there too, as precision {other}")
    return answer


def chosen_cell(predictor: Predictor, device: str | None, precision: str | None, catalog: Catalog) -> Cell:
    """The device and precision asked for, which must be in the model; its only one where nothing is asked.

    A GPU may have any name that the catalogue takes, and capitals, blanks and hyphens do not matter. Channels last is never
    meant where no precision is asked and channels first is there.
    """
    there = "; ".join(f"{cell.device} at {cell.precision}" for cell in predictor.cells)
    fitting = [
        cell
        for cell in predictor.cells
        if (device is None or device == cell.device or _plain(device, catalog) == _plain(cell.device, catalog))
        and (precision is None or _bare(precision) == _bare(cell.precision))
    ]
    if not fitting:
        asked = " at ".join(name for name in (device, precision) if name is not None)
        raise InputError(
            f"the model was not fitted for {asked}; it has {there}; measure yours with `epochcast benchmark convmeter`, fit it "
            "with `epochcast train convmeter` and name its folder"
        )
    exact = [cell for cell in fitting if cell.device == device] or fitting
    chosen = [cell for cell in exact if precision or not cell.precision.endswith(CHANNELS_LAST)] or exact
    if len(chosen) > 1:
        raise InputError(f"the model has several devices or precisions; choose a device and a precision: {there}")
    return chosen[0]


def _plain(device: str, catalog: Catalog) -> str:
    gpu = _gpu_of(None, device, catalog)
    return _bare(device if gpu is None else gpu.name)


def _bare(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _gpu_of(name: str | None, device: str, catalog: Catalog) -> Gpu | None:
    """The GPU that was named, or that the device's name stands for; None if that is none."""
    if name is not None:
        return catalog.resolve(name)
    try:
        return catalog.resolve(device)
    except UnknownGpu:
        return None


def _network(
    predictor: Predictor,
    cell: Cell,
    metrics: NetworkMetrics,
    question: Question,
    gpu: Gpu | None,
    instances: Sequence[Instance],
) -> dict[str, Any]:
    """The answer on a whole network."""

    def rent_of(devices: int) -> Rent | None:
        return (
            None
            if gpu is None
            else cheapest_rent(instances, gpu.name, devices, min(devices, question.devices_per_node or devices))
        )

    training = Training(question.dataset_size, question.epochs, None if gpu is None else gpu.memory, rent_of)
    series = question.series(metrics)
    points = pd.concat(series, ignore_index=True)
    predicted = predictor.predict(points, cell.device, cell.precision)
    if len(points) > 1 and not any(f"{phase}_seconds" in predicted for phase in RATE_OF):
        raise InputError(
            f"neither a training step nor inference of {cell.device} at {cell.precision} was measured, so throughput cannot "
            "be predicted; give one batch and one number of devices"
        )
    predictions = predictions_json(metrics, cell.precision, points, predicted, training)
    each = len(series[0])
    by_batch = [predictions[begin : begin + each] for begin in range(0, len(predictions), each)]
    mode = "weak" if question.global_batch is None else "strong"
    by_devices = [[one[number] for one in by_batch] for number in range(each)]
    rents = [training.rent_of(one["devices"]) for one in predictions] if training.dataset_size else []
    return {
        "metrics": metrics_json(metrics),
        "gpu": None if gpu is None else gpu.name,
        "predictions": predictions,
        "scaling": [scaling_json(mode, group) for group in by_batch] if each > 1 else [],
        "batches": [
            {
                "devices": group[0]["devices"],
                "large_enough": scaling_of(group).large_enough,
                "largest": max(one["batch"] for one in group),
            }
            for group in by_devices
            if len(group) > 1
        ],
        "notes": [*predictor.notes(points, cell.device, cell.precision), *price_notes(rents)],
    }


def _blocks(predictor: Predictor, cell: Cell, question: Question, whole: NetworkMetrics) -> dict[str, Any]:
    """The answer on blocks of a network: those named, else all that it is a sequence of."""
    network, size = question.network, question.image_size
    parts = [metrics_of(network, size, name) for name in question.blocks] or top_block_metrics_of(network, size)
    batch = question.batches[0] if question.batches else USUAL_BATCH
    counted = [*parts, whole]
    points = table_of(counted).assign(batch=batch, devices=1, nodes=1)
    predicted = predictor.predict(points, cell.device, cell.precision)
    return {
        "batch": batch,
        "blocks": [
            {"block": one.block, "metrics": metrics_json(one), "phases": phases_json(seconds)}
            for one, seconds in zip(counted, predicted.to_dict("records"), strict=True)
        ],
        "notes": [*predictor.notes(points.tail(1), cell.device, cell.precision), *_small(cell, parts)],
    }


def _small(cell: Cell, blocks: Sequence[NetworkMetrics]) -> list[str]:
    """Say so if no block was measured, or if blocks are smaller than all that was."""
    if not any(fit.blocks for fit in cell.fits.values()):
        return [NO_BLOCK]
    least = min(fit.ranges["flops"][0] for fit in cell.fits.values())
    small = sum(one.values["flops"] < least for one in blocks)
    return [
        f"{small} of {len(blocks)} blocks {'has' if small == 1 else 'have'} fewer FLOPs than anything measured "
        f"({least / 1e6:.3g} MFLOPs per image): less is certain there than the interval says"
    ] * bool(small)
