"""``epochcast predict-model convmeter``: a network's steps by batch and number of devices, or those of its blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pandas as pd

from ...regressor import Catalog, Gpu, load_catalog
from ...regressor import InputError as UnknownGpu
from ..backends.convmeter.answer import (
    RATE_OF,
    Training,
    fitted_json,
    metrics_json,
    phases_json,
    predictions_json,
    scaling_json,
    scaling_of,
)
from ..backends.convmeter.metrics import NetworkMetrics, table_of
from ..backends.convmeter.network_metrics import metrics_of, top_block_metrics_of
from ..backends.convmeter.predictor import NO_BLOCK, Cell, Predictor
from ..backends.convmeter.scalability import strong_scaling, weak_scaling
from ..backends.distributed.answer import price_notes
from ..backends.distributed.rent import Rent, cheapest_rent
from ..errors import InputError
from ..instances import Instance, load_instances
from ..plain_json import plain_json
from .convmeter_text import blocks_text, prediction_text
from .tables import with_prefix

_FILE = click.Path(path_type=Path)
_COUNT = click.IntRange(1, 10**12)


@dataclass(frozen=True)
class _Sizes:
    """How much is asked for: ``batches`` images on each of ``devices`` devices, or ``global_batch`` on all of them."""

    batches: Sequence[int]
    global_batch: int | None
    devices: Sequence[int]
    devices_per_node: int | None

    def series(self, metrics: NetworkMetrics) -> list[pd.DataFrame]:
        """Points by ascending number of devices, one table per batch."""
        row = table_of([metrics])
        if self.global_batch is not None:
            return [strong_scaling(row, self.global_batch, self.devices, self.devices_per_node)]
        return [weak_scaling(row, batch, self.devices, self.devices_per_node) for batch in self.batches]


@click.command("convmeter")
@click.option(
    "--network",
    required=True,
    metavar="NETWORK",
    help="A name of torchvision or timm, an import path package.module:factory, or FILE.onnx.",
)
@click.option("--model", type=_FILE, required=True, metavar="DIR", help="What `epochcast train convmeter` wrote.")
@click.option("--device", metavar="NAME", help="A device of the model. [default: its only one]")
@click.option("--precision", metavar="NAME", help="A precision of the model. [default: its only one on the device]")
@click.option("--image-size", type=_COUNT, default=224, show_default=True, metavar="PIXELS", help="Side of the image.")
@click.option(
    "--batch", "batches", type=_COUNT, multiple=True, metavar="N", help="Images per device (repeatable). [default: 32]"
)
@click.option("--global-batch", type=_COUNT, metavar="N", help="Images per step of all devices: strong scaling, not --batch.")
@click.option("--devices", type=_COUNT, multiple=True, metavar="N", help="How many, in all nodes (repeatable). [default: 1]")
@click.option("--devices-per-node", type=_COUNT, metavar="N", help="[default: all in one node]")
@click.option("--block", "blocks", multiple=True, metavar="BLOCK", help="A block alone: layer2.0 or Bottleneck4 (repeatable).")
@click.option("--blocks", "all_blocks", is_flag=True, help="All blocks that the network is a sequence of.")
@click.option("--dataset-size", type=_COUNT, metavar="N", help="Images of an epoch: adds its time and cost.")
@click.option("--epochs", type=_COUNT, metavar="N", help="Adds time and cost of so many.")
@click.option("--gpu", metavar="NAME", help="Which GPU the device is, for memory and cost. [default: by the device's name]")
@click.option("--gpus", type=_FILE, metavar="FILE", help="A TOML file with GPUs of your own.")
@click.option("--prices", type=_FILE, metavar="FILE", help="Your own price table (CSV), instead of ours.")
@click.option("--plot", type=_FILE, metavar="FILE", help="Draw throughput by devices, else by batch (PNG, SVG, PDF).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def convmeter(
    network: str,
    model: Path,
    device: str | None,
    precision: str | None,
    image_size: int,
    batches: tuple[int, ...],
    global_batch: int | None,
    devices: tuple[int, ...],
    devices_per_node: int | None,
    blocks: tuple[str, ...],
    all_blocks: bool,
    dataset_size: int | None,
    epochs: int | None,
    gpu: str | None,
    gpus: Path | None,
    prices: Path | None,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Predict inference and training of a convolutional network that never ran, and how it scales.

    Several --batch show from where on larger ones bring no more throughput, several --devices from where on more devices do
    not pay: the same images on each (weak scaling), or --global-batch shared by all (strong scaling).

    \b
    Example: epochcast predict-model convmeter --network resnet50 --model my-gpu --batch 32 --batch 64 --batch 128
             epochcast predict-model convmeter --network resnet50 --model my-gpu --devices 1 --devices 2 --devices 4
                 --dataset-size 1281167 --epochs 90 --plot scaling.png
             epochcast predict-model convmeter --network my_models:tiny --model my-gpu --blocks
    """
    _check(batches, global_batch, bool(blocks or all_blocks), devices, dataset_size, epochs, plot)
    predictor = Predictor.load(model)
    cell = chosen_cell(predictor, device, precision)
    metrics = metrics_of(network, image_size)
    asked: dict[str, Any] = {
        "network": metrics.network,
        "image_size": image_size,
        "device": cell.device,
        "precision": cell.precision,
        "fitted": fitted_json(cell),
    }
    if blocks or all_blocks:
        answer = asked | _blocks(predictor, cell, network, metrics, blocks, batches[0] if batches else 32)
        click.echo(plain_json(answer) if as_json else blocks_text(answer))
        return 0
    catalog = load_catalog(gpus)
    known = _gpu_of(gpu, cell.device, catalog)
    instances: Sequence[Instance] = []
    if dataset_size is not None and known is not None:
        instances, notes = load_instances(prices, catalog)
        for note in notes:
            click.echo(f"epochcast: {note}", err=True)
    sizes = _Sizes(sorted(set(batches or [32])), global_batch, devices or (1,), devices_per_node)
    answer = asked | _network(predictor, cell, metrics, sizes, (dataset_size, epochs), known, instances)
    if plot is not None:
        from ..figures import save_figure
        from .convmeter_plot import throughput_figure

        save_figure(throughput_figure(answer), plot)
    click.echo(plain_json(answer) if as_json else prediction_text(answer))
    return 0


def _check(
    batches: Sequence[int],
    global_batch: int | None,
    of_blocks: bool,
    devices: Sequence[int],
    dataset_size: int | None,
    epochs: int | None,
    plot: Path | None,
) -> None:
    """Raise InputError for options that do not belong together."""
    if batches and global_batch is not None:
        raise InputError("--batch is of each device and --global-batch of all together; give one of them")
    if of_blocks and (len(batches) > 1 or devices or global_batch is not None or dataset_size is not None or plot is not None):
        raise InputError(
            "--block and --blocks are for one --batch on one device; leave out --devices, --global-batch, --dataset-size "
            "and --plot"
        )
    if epochs is not None and dataset_size is None:
        raise InputError("--epochs is given without --dataset-size; say how many images an epoch has")
    if plot is not None and max(len(set(batches)), len(set(devices))) < 2:
        raise InputError("--plot draws throughput by devices or by batch; give several --devices or several --batch")


def chosen_cell(predictor: Predictor, device: str | None, precision: str | None) -> Cell:
    """The device and precision asked for, which must be in the model; its only one where nothing is asked."""
    there = "; ".join(f"{cell.device} at {cell.precision}" for cell in predictor.cells)
    fitting = [cell for cell in predictor.cells if device in (None, cell.device) and precision in (None, cell.precision)]
    if not fitting:
        asked = " at ".join(name for name in (device, precision) if name is not None)
        raise InputError(f"the model was not fitted for {asked}; it has {there}")
    if len(fitting) > 1:
        raise InputError(f"the model has several devices or precisions; choose one by --device and --precision: {there}")
    return fitting[0]


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
    sizes: _Sizes,
    epochs: tuple[int | None, int | None],
    gpu: Gpu | None,
    instances: Sequence[Instance],
) -> dict[str, Any]:
    """The answer on a network, as JSON has it."""

    def rent_of(devices: int) -> Rent | None:
        return (
            None
            if gpu is None
            else cheapest_rent(instances, gpu.name, devices, min(devices, sizes.devices_per_node or devices))
        )

    training = Training(*epochs, None if gpu is None else gpu.memory, rent_of)
    series = sizes.series(metrics)
    points = pd.concat(series, ignore_index=True)
    predicted = predictor.predict(points, cell.device, cell.precision)
    if len(points) > 1 and not any(f"{phase}_seconds" in predicted for phase in RATE_OF):
        raise InputError(
            f"neither a training step nor inference of {cell.device} at {cell.precision} was measured, so throughput cannot "
            "be told; give one --batch and one number of --devices"
        )
    predictions = predictions_json(metrics, cell.precision, points, predicted, training)
    each = len(series[0])
    by_batch = [predictions[begin : begin + each] for begin in range(0, len(predictions), each)]
    mode = "weak" if sizes.global_batch is None else "strong"
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


def _blocks(
    predictor: Predictor, cell: Cell, network: str, whole: NetworkMetrics, named: Sequence[str], batch: int
) -> dict[str, Any]:
    """The answer on blocks of a network: those named, else all that it is a sequence of."""
    parts = [metrics_of(network, whole.image_size, name) for name in named] or top_block_metrics_of(network, whole.image_size)
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
        f"{small} of {len(blocks)} blocks have fewer FLOPs than anything measured, {with_prefix(least, 'FLOPs')} per image: "
        "each is less sure than the interval tells"
    ] * bool(small)
