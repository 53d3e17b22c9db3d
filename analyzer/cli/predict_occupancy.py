"""``epochcast predict-model occupancy``: how full a network's kernels keep a GPU, before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from ...regressor import Catalog, Gpu, load_catalog
from ..backends.occupancy.answer import Asked, answer_json
from ..backends.occupancy.batch_sweep import batches_that_fit
from ..backends.occupancy.configuration import Configuration
from ..backends.occupancy.graph.computation_graph import ComputationGraph
from ..backends.occupancy.modelled_launches import modelled_step
from ..backends.occupancy.networks import complete
from ..backends.occupancy.networks.known_networks import LARGEST_BATCH, PRECISIONS
from ..backends.occupancy.predictor import Predictor
from ..backends.occupancy.sample import Sample
from ..errors import InputError
from ..plain_json import plain_json
from . import progress
from .occupancy_text import prediction_text

_FILE = click.Path(path_type=Path)
_COUNT = click.IntRange(1, LARGEST_BATCH)
_BATCH = 32


@click.command("occupancy")
@click.option(
    "--network",
    required=True,
    metavar="NETWORK",
    help="A name of Table II, torchvision or timm, an import path package.module:factory, or FILE.onnx.",
)
@click.option("--model", type=_FILE, metavar="DIR", help="What `epochcast train occupancy` wrote. [default: modelled launches]")
@click.option(
    "--gpu", "gpus_asked", multiple=True, metavar="NAME", help="Where it would run (repeatable). [default: the model's]"
)
@click.option(
    "--batch", "batches", type=_COUNT, multiple=True, metavar="N", help="Samples of a step (repeatable). [default: 32]"
)
@click.option("--channels", type=_COUNT, metavar="N", help="Of the image. [default: the network's usual]")
@click.option("--image-size", type=_COUNT, metavar="PIXELS", help="Side of the image.")
@click.option("--sequence", type=_COUNT, metavar="N", help="Tokens, or steps of a recurrent network.")
@click.option("--hidden", type=_COUNT, metavar="N", help="Width of a recurrent network.")
@click.option("--layers", type=_COUNT, metavar="N", help="Of a recurrent network.")
@click.option("--precision", type=click.Choice(PRECISIONS), default="fp32", show_default=True, help="Of the arithmetic.")
@click.option("--sweep-batches", is_flag=True, help="All powers of two that memory holds, and the smallest that fills the GPU.")
@click.option("--gpus", type=_FILE, metavar="FILE", help="A TOML file with GPUs of your own.")
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
    """Predict the GPU occupancy of a network's inference, and the batch from which on larger ones fill the GPU no better.

    Without --model the kernels that a model of PyTorch's launches expects are put through CUDA's occupancy calculation; their
    number, step time, NVML utilisation and memory always come from there. The first line says where occupancy comes from.

    A factory of your own gives a module, which is called with images, or (module, inputs); its parameters batch, channels,
    image_size, sequence, hidden and layers are given what the options say.

    \b
    Example: epochcast predict-model occupancy --network resnet50 --gpu "A100 SXM4 80GB" --gpu T4 --batch 64
             epochcast predict-model occupancy --network bert --sequence 128 --model h200 --sweep-batches --plot bert.png
             epochcast predict-model occupancy --network encoder.onnx --gpu L4 --precision fp16
    """
    if batches and sweep_batches:
        raise InputError("--sweep-batches tries all batches that memory holds; leave out --batch")
    if plot is not None and not sweep_batches and len(set(batches)) < 2:
        raise InputError("--plot draws occupancy by batch; give --sweep-batches or several --batch")
    catalog = load_catalog(gpus)
    predictor = None if model is None else Predictor.load(model)
    chosen = _gpus(gpus_asked, predictor, catalog)
    progress.show(f"exporting {network}")
    given = {"channels": channels, "image_size": image_size, "sequence": sequence, "hidden": hidden, "layers": layers}
    sizes = Configuration(network, 1, precision=precision, **{name: size for name, size in given.items() if size})
    asked = _network(sizes)
    progress.clear()
    if not len(asked.graph):
        raise InputError(f"{network} launches no kernel, so it has no occupancy; give a network that computes something")
    if sweep_batches:
        groups = [_fitting(asked, gpu) for gpu in chosen]
    else:
        groups = [[asked.on(gpu, batch) for batch in sorted(set(batches or [_BATCH]))] for gpu in chosen]
    answer = answer_json(groups, predictor, swept=sweep_batches)
    if plot is not None:
        from ..figures import save_figure
        from .occupancy_plot import batches_figure

        save_figure(batches_figure(answer), plot)
    click.echo(plain_json(answer) if as_json else prediction_text(answer))
    return 0


@dataclass(frozen=True)
class _Network:
    """A network with its graph at one batch."""

    configuration: Configuration
    graph: ComputationGraph

    def on(self, gpu: Gpu, batch: int) -> Asked:
        """On a GPU at another batch, with the launches that are expected there."""
        sample = Sample(replace(self.configuration, batch=batch), self.graph.at_batch(batch), gpu)
        return Asked(sample, modelled_step(sample))


def _network(sizes: Configuration) -> _Network:
    if sizes.network.endswith(".onnx"):
        from ..backends.occupancy.graph.from_onnx import graph_of_onnx

        return _Network(sizes, graph_of_onnx(Path(sizes.network), sizes))
    from ..backends.occupancy.graph_of import graph_of

    whole = complete(sizes)
    return _Network(whole, graph_of(whole))


def _gpus(names: Sequence[str], predictor: Predictor | None, catalog: Catalog) -> list[Gpu]:
    """Those asked for; those that the model was fitted on where none is."""
    if not names and predictor is None:
        raise InputError("name the GPU by --gpu, or a model that was trained on one by --model; `epochcast gpus` lists them")
    wanted = names or (predictor.fitted_on.gpus if predictor is not None else ())
    return list({gpu.name: gpu for gpu in (catalog.resolve(name) for name in wanted)}.values())


def _fitting(asked: _Network, gpu: Gpu) -> list[Asked]:
    """Batches of powers of two that the GPU's memory holds."""
    tried: dict[int, Asked] = {}

    def memory_of(batch: int) -> float:
        tried[batch] = asked.on(gpu, batch)
        return tried[batch].step.memory_bytes

    batches = batches_that_fit(memory_of, gpu.memory)
    if not batches:
        raise InputError(
            f"{asked.configuration.network} does not fit {gpu.name} even at batch 1: it takes about "
            f"{memory_of(1) / 2**30:.1f} GiB of {gpu.memory / 2**30:.1f} GiB; take a GPU with more memory"
        )
    return [tried[batch] for batch in batches]
