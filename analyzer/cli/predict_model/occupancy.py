"""``epochcast predict-model occupancy``: how full a network's kernels keep a GPU, before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ....regressor import load_catalog
from ...backends.occupancy.configuration import Configuration
from ...backends.occupancy.networks.known_networks import LARGEST_BATCH, PRECISIONS
from ...backends.occupancy.predictor import Predictor
from ...backends.occupancy.question import Question, answer
from ...errors import InputError
from ...plain_json import plain_json
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
    help="Model folder written by `epochcast train occupancy`. [default: modelled launches]",
)
@click.option(
    "--gpu", "gpus_asked", multiple=True, metavar="NAME", help="GPU to predict for (repeatable). [default: the model's]"
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
    gpus_asked: tuple[str, ...],
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
    """Predict the GPU occupancy of a network's inference, and the smallest batch that fills the GPU.

    Without --model, CUDA's occupancy calculation is applied to the kernels that PyTorch is expected to launch. The number of
    kernels, step time, NVML utilisation and memory always come from there. The first line names where the occupancy comes from.

    Your own factory returns a module that is called with images, or (module, inputs). Its parameters batch, channels,
    image_size, sequence, hidden and layers get the values of these options.

    \b
    Example: epochcast predict-model occupancy --network resnet50 \\
                 --gpu "A100 SXM4 80GB" --gpu T4 --batch 64
             epochcast predict-model occupancy --network bert --sequence 128 \\
                 --model h200 --sweep-batches --plot bert.png
             epochcast predict-model occupancy --network encoder.onnx --gpu L4 \\
                 --precision fp16
    """
    if plot is not None and not sweep_batches and len(set(batches)) < 2:
        raise InputError("--plot draws occupancy by batch; give --sweep-batches or several --batch")
    given = {"channels": channels, "image_size": image_size, "sequence": sequence, "hidden": hidden, "layers": layers}
    sizes = Configuration(network, 1, precision=precision, **{name: size for name, size in given.items() if size})
    question = Question(sizes, gpus_asked, batches, sweep_batches)
    predictor = None if model is None else Predictor.load(model)
    progress.show(f"exporting {network}")
    answered = answer(question, predictor, load_catalog(gpus))
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
    """A panel per GPU; NVML utilisation is that of the modelled launches."""
    from ...figures.occupancy import BatchCurve, occupancy_by_batch_figure

    best = {one["gpu"]: one["smallest"] for one in answer["batches"]}
    curves = []
    for gpu in dict.fromkeys(one["gpu"] for one in answer["predictions"]):
        own = [one for one in answer["predictions"] if one["gpu"] == gpu]
        curves.append(
            BatchCurve(
                f"{answer['network']} on {gpu}, {answer['precision']}",
                np.array([one["batch"] for one in own], dtype=float),
                np.array([one["occupancy"] for one in own], dtype=float),
                np.array([one["low"] for one in own], dtype=float),
                np.array([one["high"] for one in own], dtype=float),
                np.array([one["modelled"]["nvml_utilisation"] for one in own], dtype=float),
                best.get(gpu),
            )
        )
    return occupancy_by_batch_figure(curves, "modelled" if answer["model"] is None else "predicted", "modelled")
