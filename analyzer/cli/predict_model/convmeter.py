"""``epochcast predict-model convmeter``: a network's steps by batch and number of devices, or those of its blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ....regressor import load_catalog
from ...backends.convmeter import SHIPPED
from ...backends.convmeter.answer import main_rates
from ...backends.convmeter.predictor import Predictor
from ...backends.convmeter.question import Question, answer_json
from ...errors import InputError
from ...instances import Instance, load_instances
from ...plain_json import plain_json
from .. import terminal
from ..convmeter_text import blocks_text, prediction_text
from ..quantities import Count
from ..shared_options import gpus_option, json_option, prices_option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...figures.scaling import ScalingCurve

_FILE = click.Path(path_type=Path)
_COUNT = Count(10**12)


@click.command("convmeter")
@click.option(
    "--network",
    required=True,
    metavar="NETWORK",
    help="Network: a name in torchvision or timm, package.module:factory, or FILE.onnx.",
)
@click.option(
    "--model",
    type=_FILE,
    default=SHIPPED,
    metavar="DIR",
    help="Model folder written by `epochcast train convmeter`. [default: fits of public tables that come with Epochcast]",
)
@click.option("--device", metavar="NAME", help="Device to predict for, one of the model's. [default: its only one]")
@click.option("--precision", metavar="NAME", help="Precision, one of the model's. [default: its only one on the device]")
@click.option(
    "--image-size", type=_COUNT, default=224, show_default=True, metavar="PIXELS", help="Side of the square images in pixels."
)
@click.option(
    "--batch", "batches", type=_COUNT, multiple=True, metavar="N", help="Images per device (repeatable). [default: 32]"
)
@click.option(
    "--global-batch", type=_COUNT, metavar="N", help="Images per step over all devices (strong scaling), instead of --batch."
)
@click.option(
    "--devices", type=_COUNT, multiple=True, metavar="N", help="Number of devices over all nodes (repeatable). [default: 1]"
)
@click.option("--devices-per-node", type=_COUNT, metavar="N", help="Number of devices in a node. [default: all in one node]")
@click.option(
    "--block",
    "blocks",
    multiple=True,
    metavar="BLOCK",
    help="Predict only this block, e.g. layer2.0 or Bottleneck4 (repeatable).",
)
@click.option("--blocks", "all_blocks", is_flag=True, help="Predict each block that the network is a sequence of.")
@click.option("--dataset-size", type=_COUNT, metavar="N", help="Images in an epoch; adds its time and cost.")
@click.option("--epochs", type=_COUNT, metavar="N", help="Epochs in the whole job; adds its time and cost.")
@click.option("--gpu", metavar="NAME", help="GPU the device is, for memory and cost. [default: by the device's name]")
@gpus_option
@prices_option
@click.option("--plot", type=_FILE, metavar="FILE", help="Draw throughput by number of devices or by batch (PNG, SVG, PDF).")
@json_option
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

    Several --batch show where larger batches stop adding throughput. Several --devices show where more devices stop paying off:
    with the same images on each (weak scaling), or with --global-batch shared by all (strong scaling).

    \b
    Example: epochcast predict-model convmeter --network resnet50 \\
                 --device "RTX 3090"
             epochcast predict-model convmeter --network resnet50 --model my-gpu \\
                 --batch 32 --batch 64 --batch 128
             epochcast predict-model convmeter --network resnet50 --model my-gpu \\
                 --devices 1 --devices 2 --devices 4 --dataset-size 1281167 \\
                 --epochs 90 --plot scaling.png
             epochcast predict-model convmeter --network my_models:tiny \\
                 --model my-gpu --blocks
    """
    if plot is not None and max(len(set(batches)), len(set(devices))) < 2:
        raise InputError("--plot draws throughput by devices or by batch; give several --devices or several --batch")
    question = Question(
        network,
        image_size,
        device,
        precision,
        batches,
        global_batch,
        devices,
        devices_per_node,
        blocks,
        all_blocks,
        dataset_size,
        epochs,
        gpu,
    )
    catalog = load_catalog(gpus)
    instances: Sequence[Instance] = []
    if dataset_size is not None:
        instances, notes = load_instances(prices, catalog)
        for note in notes:
            terminal.note(note)
    answer = answer_json(question, Predictor.load(model), catalog, instances)
    if plot is not None:
        from ...figures import save_figure

        save_figure(_throughput_figure(answer), plot)
    if as_json:
        click.echo(plain_json(answer))
    else:
        terminal.say(blocks_text(answer) if question.of_blocks else prediction_text(answer))
        terminal.notes(answer["notes"])
    return 0


def _throughput_figure(answer: Mapping[str, Any]) -> Figure:
    """Throughput by devices, a panel per batch; by batch where there is one number of devices."""
    from ...figures.scaling import scaling_figure

    name, predictions = answer["network"], answer["predictions"]
    if not answer["scaling"]:
        return scaling_figure([_curve(name, predictions, "batch", None)], "images per device and step")
    each = len(predictions) // len(answer["scaling"])
    curves = []
    for number, scaling in enumerate(answer["scaling"]):
        group = predictions[number * each : (number + 1) * each]
        title = name if scaling["batch"] is None else f"{name}, batch {scaling['batch']}"
        curves.append(_curve(title, group, "devices", scaling["turning_point"]))
    return scaling_figure(curves, "devices")


def _curve(title: str, predictions: Sequence[Mapping[str, Any]], by: str, turning_point: int | None) -> ScalingCurve:
    from ...figures.scaling import ScalingCurve

    rates = main_rates(predictions)
    return ScalingCurve(
        title,
        np.array([one[by] for one in predictions], dtype=float),
        predicted=np.array([rate["value"] for rate in rates]),
        low=np.array([rate["low"] for rate in rates]),
        high=np.array([rate["high"] for rate in rates]),
        turning_point=turning_point,
        beyond=np.array([one["memory"] is not None and one["memory"]["fits"] is False for one in predictions]),
    )
