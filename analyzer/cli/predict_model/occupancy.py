"""``epochcast predict-model occupancy``: what training a network takes of a GPU, before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ....regressor import load_catalog
from ...backends.occupancy import SHIPPED
from ...backends.occupancy.configuration import Configuration
from ...backends.occupancy.networks.known_networks import LARGEST_BATCH, PRECISIONS
from ...backends.occupancy.predictor import Predictor
from ...backends.occupancy.question import Question, answer
from ...errors import InputError
from ...plain_json import plain, plain_json
from .. import progress, terminal
from ..occupancy_text import prediction_text
from ..quantities import Count
from ..shared_options import gpus_option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FILE = click.Path(path_type=Path)
_COUNT = Count(LARGEST_BATCH)


@click.command("occupancy")
@click.option(
    "--network",
    required=True,
    metavar="NETWORK",
    help="Network: a name in Table II, torchvision or timm, package.module:factory, or FILE.onnx.",
)
@click.option(
    "--model",
    type=_FILE,
    metavar="DIR",
    help="Model folder written by `epochcast train occupancy`. [default: the shipped one]",
)
@click.option(
    "--gpu", "gpu_names", multiple=True, metavar="NAME", help="GPU to predict for (repeatable). [default: the model's]"
)
@click.option(
    "--batch", "batches", type=_COUNT, multiple=True, metavar="N", help="Samples in a step (repeatable). [default: 32]"
)
@click.option("--channels", type=_COUNT, metavar="N", help="Channels of the image. [default: the network's usual number]")
@click.option("--image-size", type=_COUNT, metavar="PIXELS", help="Side of the square images in pixels.")
@click.option("--sequence", type=_COUNT, metavar="N", help="Length of the sequence: tokens, or steps of a recurrent network.")
@click.option("--hidden", type=_COUNT, metavar="N", help="Width of a recurrent network.")
@click.option("--layers", type=_COUNT, metavar="N", help="Number of layers of a recurrent network.")
@click.option(
    "--precision", type=click.Choice(PRECISIONS), default="fp32", show_default=True, help="Precision of the arithmetic."
)
@click.option(
    "--sweep-batches",
    is_flag=True,
    help="Try all powers of two that fit in memory, and name the smallest batch that fills the GPU.",
)
@gpus_option
@click.option("--plot", type=_FILE, metavar="FILE", help="Draw occupancy and NVML utilisation by batch (PNG, SVG, PDF).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; ratios are 0 to 1.")
def occupancy(
    network: str,
    model: Path | None,
    gpu_names: tuple[str, ...],
    batches: tuple[int, ...],
    channels: int | None,
    image_size: int | None,
    sequence: int | None,
    hidden: int | None,
    layers: int | None,
    precision: str,
    sweep_batches: bool,
    gpus: Path | None,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Predict what training a network takes of a GPU: SM occupancy, SM activity and peak memory, and whether it fits.

    The shipped model is fitted on trainings of random networks in fp32 that DCGM measured on an A100. What it cannot know is
    not answered: other operators or precisions, and SMs of other GPUs. There, CUDA's occupancy calculation is applied to the
    kernels that PyTorch is expected to launch in inference; nothing of that was measured.

    Your own factory returns a module that is called with images, or (module, inputs). Its parameters batch, channels,
    image_size, sequence, hidden and layers get the values of these options.

    \b
    Example: epochcast predict-model occupancy --network resnet50 --batch 64
             epochcast predict-model occupancy --network vgg16 --sweep-batches \\
                 --plot vgg16.png
             epochcast predict-model occupancy --network encoder.onnx --gpu L4 \\
                 --precision fp16
    """
    if plot is not None and not sweep_batches and len(set(batches)) < 2:
        raise InputError("--plot draws occupancy by batch; give --sweep-batches or several --batch")
    given = {"channels": channels, "image_size": image_size, "sequence": sequence, "hidden": hidden, "layers": layers}
    sizes = Configuration(network, 1, precision=precision, **{name: size for name, size in given.items() if size})
    question = Question(sizes, gpu_names, batches, sweep_batches)
    predictor = Predictor.load(model or SHIPPED)
    progress.show(f"exporting {network}")
    answered = plain(answer(question, predictor, load_catalog(gpus)))
    progress.clear()
    if plot is not None:
        from ...figures import save_figure

        save_figure(_batches_figure(answered), plot)
    if as_json:
        click.echo(plain_json(answered))
    else:
        terminal.say(prediction_text(answered))
        terminal.notes(answered["notes"])
    return 0


def _batches_figure(answer: Mapping[str, Any]) -> Figure:
    """A panel per GPU: the training's SM occupancy where it is known, else that of the modelled launches."""
    from ...figures.occupancy import BatchCurve, occupancy_by_batch_figure

    best = {sweep["gpu"]: sweep["smallest"] for sweep in answer["batches"]}
    curves = []
    for gpu in dict.fromkeys(row["gpu"] for row in answer["predictions"]):
        rows = [row for row in answer["predictions"] if row["gpu"] == gpu]
        occupancies = [row["training"]["sm_occupancy"] or {"value": row["modelled"]["time_mean"]} for row in rows]
        value, low, high = (np.array([each.get(key) for each in occupancies], dtype=float) for key in ("value", "low", "high"))
        curves.append(
            BatchCurve(
                f"{answer['network']} on {gpu}, {answer['precision']}",
                np.array([row["batch"] for row in rows], dtype=float),
                value,
                low,
                high,
                np.array([_activity(row) for row in rows], dtype=float),
                rows[0]["training"]["sm_occupancy"] is None,
                best.get(gpu),
            )
        )
    return occupancy_by_batch_figure(curves)


def _activity(row: Mapping[str, Any]) -> float:
    activity = row["training"]["sm_active"]
    return float(activity["value"] if activity else row["modelled"]["nvml_utilisation"])
