"""What is trained, how it is spread, and what predicts it: the options of every answer on distributed training."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from ....regressor import Catalog, Gpu, load_catalog
from ...backends.distributed.communication import link_named, load_links
from ...backends.distributed.fitted_model import FittedModel
from ...backends.distributed.graph import Extraction
from ...backends.distributed.job import Attention, Recomputation, ScheduleName
from ...backends.distributed.precision import PRECISIONS, Precision
from ...backends.distributed.predictor import Predictor, TimesOf
from ...backends.distributed.question import Question, require_torch
from ...backends.distributed.recipes import RECIPES
from ...errors import InputError
from .. import progress
from ..shared_options import gpus_option

if TYPE_CHECKING:
    from ...backends.distributed.operator_time import OperatorTimes

_FILE = click.Path(path_type=Path)
_COUNT = click.IntRange(min=1)
SOURCES = ("usual", "calibrated", "learned", "profile", "table")

_JOB = (
    click.option("--dp", "data", type=_COUNT, metavar="N", help="Data-parallel ranks. [default: 1]"),
    click.option("--tp", "tensor", type=_COUNT, metavar="N", help="Tensor-parallel ranks. [default: 1]"),
    click.option("--pp", "pipeline", type=_COUNT, metavar="N", help="Pipeline stages. [default: 1]"),
    click.option("--micro-batch", type=_COUNT, metavar="N", help="Samples a rank computes at once. [default: 1]"),
    click.option("--global-batch", type=_COUNT, metavar="N", help="Samples per iteration. [default: dp x pp micro-batches]"),
    click.option("--sequence-length", type=_COUNT, metavar="N", help="Tokens per sample. [default: 2048, or the model's most]"),
    click.option(
        "--precision",
        "precisions",
        multiple=True,
        metavar="NAME",
        help=f"Precision: {', '.join(PRECISIONS)} (repeatable for --compare and --search). "
        "[default: amp-bf16, else amp-fp16, else fp32; all that the GPU has for --compare and --search]",
    ),
    click.option(
        "--schedule",
        type=click.Choice(get_args(ScheduleName)),
        default="1f1b",
        show_default=True,
        help="Order of micro-batches in the pipeline.",
    ),
    click.option(
        "--virtual-stages", type=_COUNT, default=1, metavar="N", help="Chunks of layers per stage (interleaved 1F1B)."
    ),
    click.option("--layers-per-stage", metavar="N,N,…", help="Layers of each chunk. [default: balanced]"),
    click.option(
        "--recomputation",
        type=click.Choice(get_args(Recomputation)),
        help="Activations to recompute. [default: none; with --search as few as fit]",
    ),
    click.option("--sequence-parallel", is_flag=True, help="Split norms and dropout along the sequence."),
    click.option("--zero", type=click.IntRange(0, 1), metavar="N", help="ZeRO stage. [default: 0; both with --search]"),
    click.option(
        "--optimizer",
        type=click.Choice(["adam", "sgd"]),
        default="adam",
        show_default=True,
        help="Optimizer (adam includes AdamW).",
    ),
    click.option("--no-master-weights", is_flag=True, help="Keep no FP32 copies of 16-bit weights."),
    click.option(
        "--attention",
        type=click.Choice(get_args(Attention)),
        default="fused",
        show_default=True,
        help="Attention as one (flash) kernel, or as matrix products and softmax.",
    ),
    click.option("--fused-kernels", is_flag=True, help="Fuse neighbouring one-pass operators (Megatron-LM, torch.compile)."),
    click.option("--overlap", is_flag=True, help="Reduce gradients during the backward pass (torch DDP)."),
    click.option("--tensor-overlap", is_flag=True, help="Exchange between tensor ranks during weight gradients (Megatron-LM)."),
)

_CLUSTER = (
    click.option(
        "--gpu",
        "gpu_names",
        multiple=True,
        metavar="NAME",
        help="GPU to predict for (repeatable with --search).",
    ),
    gpus_option,
    click.option("--gpus-per-node", type=_COUNT, metavar="N", help="Number of GPUs in a host. [default: 8, or all if fewer]"),
    click.option("--intra", metavar="LINK", help="Link within a host, e.g. 'PCIe 4 x16'. [default: the GPU's own]"),
    click.option("--inter", metavar="LINK", help="Link between hosts, e.g. '4x InfiniBand HDR'. [default: usual for the GPU]"),
    click.option("--links", type=_FILE, metavar="FILE", help="TOML file with links of your own, for --intra and --inter."),
)

_PREDICTOR = (
    click.option(
        "--model",
        required=True,
        metavar="MODEL",
        help="Model: a built-in name, style:key=value,…, config.json or module:factory.",
    ),
    click.option(
        "--tensor-plan", type=_FILE, metavar="FILE", help="JSON file naming the layers of your module that tensor ranks split."
    ),
    click.option(
        "--graph",
        type=click.Choice(get_args(Extraction)),
        default="recording",
        show_default=True,
        help="Operators as torch's dispatcher sees them, or by torch.fx as in the paper.",
    ),
    click.option(
        "--recipe", type=click.Choice(list(RECIPES)), default="default", show_default=True, help="Method of prediction."
    ),
    click.option(
        "--calibration", type=_FILE, metavar="DIR", help="Folder written by `train distributed` or `calibrate distributed`."
    ),
    click.option(
        "--operators",
        type=click.Choice(SOURCES),
        default="usual",
        show_default=True,
        help="Operator times: calibrated roofline, learned on other GPUs, measured here (profile), from a corpus (table), or "
        "calibrated or learned, whichever is closer for such a question (usual).",
    ),
    click.option(
        "--device", type=click.Choice(["cuda", "cpu"]), help="Device here that --operators profile measures. [default: cuda]"
    ),
    click.option("--corpus", type=_FILE, metavar="PATH", help="Operators measured on that GPU, for --operators table."),
)


def distributed_options(command: Callable[..., int]) -> Callable[..., int]:
    """All options above, in their order."""
    for option in reversed((*_PREDICTOR, *_CLUSTER, *_JOB)):
        command = option(command)
    return command


def asked(options: Mapping[str, Any]) -> Question:
    """Resolve names and read files; torch is loaded here.

    Raises:
        InputError: torch is missing, something named is unknown, or a file cannot be read.
    """
    catalog = load_catalog(options["gpus"])
    on_cpu = options["device"] == "cpu"
    gpus = tuple(catalog.resolve(name) for name in options["gpu_names"])
    calibration = options["calibration"]
    fitted = FittedModel.load(calibration) if calibration else FittedModel.load()
    operators, corpus = options["operators"], options["corpus"]
    if (operators == "table") != (corpus is not None):
        raise InputError("--corpus PATH is what --operators table looks operators up in; give both or neither")
    links = load_links(options["links"])
    intra, inter = (link_named(name, links) if name else None for name in (options["intra"], options["inter"]))
    require_torch()
    from ...backends.distributed.graphs import ModelGraphs

    graphs = ModelGraphs.of(options["model"], options["device"] or "cuda", _plan(options["tensor_plan"]), options["graph"])
    if on_cpu:
        from ...backends.distributed.this_machine import AS_MEASURED, NO_LINK, this_machine

        gpus = (this_machine(),)
        predictor = Predictor(graphs, options["recipe"], FittedModel(AS_MEASURED), operators, _profiled_here, intra=NO_LINK)
        return Question(predictor, catalog, gpus, {**options, "layers_per_stage": None})
    predictor = Predictor(
        graphs,
        options["recipe"],
        fitted,
        operators,
        _times_of(operators, corpus, catalog),
        options["gpus_per_node"],
        intra,
        inter,
    )
    return Question(predictor, catalog, gpus, {**options, "layers_per_stage": _layers(options["layers_per_stage"])})


def _times_of(source: str, corpus: Path | None, catalog: Catalog) -> TimesOf | None:
    """Operator times that were measured; None for the sources of the predictor's own."""
    if corpus is not None:
        from ...backends.distributed.operator_time.corpus import read_corpus
        from ...backends.distributed.operator_time.table import Table

        rows = read_corpus(corpus, catalog)
        return lambda gpu, precision: Table(rows, gpu.name, precision.tf32)
    return _profiled if source == "profile" else None


def _profiled(gpu: Gpu, precision: Precision) -> OperatorTimes:
    """Operators measured on the CUDA device here, which must be the GPU asked for."""
    import torch

    if not torch.cuda.is_available():
        raise InputError(
            f"--operators profile measures here, where torch finds no GPU; run it on a {gpu.name}, or take learned"
        )
    here = load_catalog().resolve(torch.cuda.get_device_name())
    if here.name != gpu.name:
        raise InputError(f"--operators profile measures on the GPU here, a {here.name}; ask for that, or take learned")
    return _measured("cuda", precision)


def _profiled_here(_: Gpu, precision: Precision) -> OperatorTimes:
    """Operators measured on this machine's CPU."""
    return _measured("cpu", precision)


def _measured(device: Literal["cuda", "cpu"], precision: Precision) -> OperatorTimes:
    from ...backends.distributed.operator_time.profile import ProfiledTimes
    from ...backends.distributed.operator_time.profile_cache import ProfileCache

    return ProfiledTimes(
        device, precision, ProfileCache(), progress=lambda done, most: progress.show(f"round {done} of {most}")
    )


def check_device(options: Mapping[str, Any], others: Mapping[str, bool]) -> None:
    """Raise InputError where no GPU is named, or ``--device cpu`` meets what is of GPUs; ``others`` by name, if given."""
    if options["device"] and options["operators"] != "profile":
        raise InputError("--device is what --operators profile measures; give that too, or leave --device out")
    if options["device"] != "cpu":
        if not options["gpu_names"]:
            raise InputError("no GPU is named; give --gpu NAME, or measure this machine with --operators profile --device cpu")
        return
    degrees = {"--dp": "data", "--tp": "tensor", "--pp": "pipeline"}
    of_gpus = {"--gpu": "gpu_names", "--intra": "intra", "--inter": "inter", "--links": "links", "--calibration": "calibration"}
    given = [option for option, name in degrees.items() if (options[name] or 1) > 1]
    given += [option for option, name in of_gpus.items() if options[name]]
    given += [f"--recipe {options['recipe']}"] if options["recipe"] == "roofline" else []
    given += [option for option, is_given in others.items() if is_given]
    if given:
        raise InputError(
            f"--device cpu predicts one process on this machine from measured operators; leave out {', '.join(given)}"
        )


def _layers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--layers-per-stage is {text!r}; give whole numbers such as 10,11,11") from None


def _plan(path: Path | None) -> Mapping[str, str] | None:
    if path is None:
        return None
    try:
        plan = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the tensor plan {str(path)!r}: {error}") from error
    if not isinstance(plan, dict) or not all(isinstance(rule, str) for rule in plan.values()):
        raise InputError(f'the tensor plan {str(path)!r} must be a JSON object such as {{"*.fc1": "column", "*.fc2": "row"}}')
    return plan


def one_of(values: Sequence[Any], option: str, why: str) -> Any:
    """The only value of an option that may be given several times; raises InputError if there are more."""
    if len(values) > 1:
        raise InputError(f"{option} is given {len(values)} times; several are for {why}, give one")
    return values[0] if values else None
