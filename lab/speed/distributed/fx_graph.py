"""Operators by torch.fx, as the paper extracts them, next to those that are recorded; part FX of docs/distributed.md.

    python -m lab.speed.distributed.fx_graph [--write]    (needs torch, torchvision, timm and transformers)

Every model is traced both ways in training under BF16 autocast, two samples. Compared are the multisets of operators: name,
phase, shapes, dtypes, FLOPs and arguments; "same graph" also has their blocks, order, weights and bytes that backward needs.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.distributed.graph import Extraction, Graph, Operator
from epochcast.analyzer.backends.distributed.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.job import TrainingConfiguration
from epochcast.analyzer.backends.distributed.models import NAMED
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.backends.distributed.trace import trace
from epochcast.analyzer.backends.network.find import find_network
from epochcast.analyzer.errors import InputError
from lab.speed.page import DISTRIBUTED, markdown_table, options, publish

PRECISION = "amp-bf16"
SAMPLES = 2
TOKENS = 128
PIXELS = 224
LAYERS = 2  # of the models of transformers, whose layers are alike

TORCHVISION = (
    *("alexnet", "vgg11", "resnet50", "resnext50_32x4d", "densenet121", "googlenet", "inception_v3", "squeezenet1_0"),
    *("mobilenet_v3_small", "efficientnet_b0", "regnet_y_400mf", "shufflenet_v2_x1_0", "mnasnet1_0", "convnext_tiny"),
    *("vit_b_32", "swin_t", "swin_v2_t", "maxvit_t"),
)
TIMM = (
    *("resnet18", "vit_tiny_patch16_224", "deit_tiny_patch16_224", "swin_tiny_patch4_window7_224", "mixer_s32_224"),
    *("tnt_s_patch16_224", "nf_resnet26", "efficientnet_lite0", "mobilevit_xxs", "xcit_nano_12_p16_224"),
    *("beit_base_patch16_224", "poolformer_s12", "edgenext_xx_small", "gmlp_ti16_224", "crossvit_tiny_240", "levit_128s"),
    *("coat_tiny", "pit_ti_224"),
)
HUGGING_FACE = ("gpt2", "llama", "bert", "opt", "qwen2", "vit", "distilbert")


def built_in(name: str, extraction: Extraction) -> Graph:
    """A model of ours."""
    job = TrainingConfiguration(micro_batch=SAMPLES, global_batch=SAMPLES, sequence_length=TOKENS, precision=PRECISION)
    return ModelGraphs.of(name, extraction=extraction).graph(job)


def network(name: str, extraction: Extraction) -> Graph:
    """A network of a library for images."""
    module, (image,) = find_network(name, 240 if "240" in name else PIXELS)
    images = torch.empty(SAMPLES, *image.shape[1:], device="meta")
    return trace(module.train(), (images,), precision_named(PRECISION), "cuda", None, name, extraction)


def hugging_face(kind: str, extraction: Extraction) -> Graph:
    """A model of transformers by its ``model_type``, as its library builds it with few layers."""
    from transformers import AutoConfig, AutoModel

    layers = {"num_hidden_layers": LAYERS, "n_layer": LAYERS, "num_layers": LAYERS}
    with torch.device("meta"):
        module = AutoModel.from_config(AutoConfig.for_model(kind, **layers)).train()
        inputs: Tensor = torch.zeros(SAMPLES, TOKENS, dtype=torch.long)
        if kind == "vit":
            inputs = torch.empty(SAMPLES, 3, PIXELS, PIXELS)
    return trace(module, (inputs,), precision_named(PRECISION), "cuda", None, kind, extraction)


def torch_nn(name: str, extraction: Extraction) -> Graph:
    """A layer of torch that is made of others, within a module (a module that is nothing else, fx would enter)."""
    made: Mapping[str, Callable[[], nn.Module]] = {
        "TransformerEncoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 256, batch_first=True), LAYERS),
        "LSTM": lambda: nn.LSTM(64, 64, LAYERS),
    }
    with torch.device("meta"):
        module, inputs = nn.Sequential(made[name]()), torch.empty(SAMPLES, TOKENS, 64)
    return trace(module, (inputs,), precision_named(PRECISION), "cuda", None, name, extraction)


GROUPS: Mapping[str, tuple[Callable[[str, Extraction], Graph], tuple[str, ...]]] = {
    "built in": (built_in, tuple(NAMED)),
    "torchvision": (network, tuple(f"torchvision:{name}" for name in TORCHVISION)),
    "timm": (network, tuple(f"timm:{name}" for name in TIMM)),
    "transformers": (hugging_face, HUGGING_FACE),
    "torch.nn": (torch_nn, ("TransformerEncoder", "LSTM")),
}


OUTCOMES = ("same graph", "same operators in another order", "other operators", "fx refuses", "both refuse")


def outcome(traced: Callable[[Extraction], Graph]) -> tuple[str, str]:
    """One of :data:`OUTCOMES`, and in words what is different or why it is refused."""
    try:
        recorded = traced("recording")
    except InputError as error:
        return "both refuse", str(error)
    try:
        symbolic = traced("fx")
    except InputError as error:
        return "fx refuses", str(error).rpartition("; leave out")[0].partition("): ")[2] or str(error)
    if recorded == symbolic:
        return "same graph", ""
    ours, theirs = _operators(recorded), _operators(symbolic)
    if ours == theirs:
        return OUTCOMES[1], "or saving other bytes"
    return "other operators", f"{_names(ours - theirs)} recorded, {_names(theirs - ours)} by fx"


def _operators(graph: Graph) -> Counter[Operator]:
    parts = (graph.before, *graph.blocks, graph.after)
    # How many bytes a fused chain moves is a matter of order, which "same graph" compares.
    return Counter(replace(operator, fused_bytes=0.0) for block in parts for operator in block.operators)


def _names(operators: Counter[Operator]) -> str:
    return ", ".join(sorted({f"`{operator.name}`" for operator in operators})) or "nothing"


def lines() -> Iterator[str]:
    """A table by group; then what is different and what is refused, with the models."""
    counts = {group: Counter[str]() for group in (*GROUPS, "all")}
    details: dict[tuple[str, str], list[str]] = defaultdict(list)
    for group, (builder, names) in GROUPS.items():
        for name in names:
            print(name, file=sys.stderr)
            kind, detail = outcome(partial(builder, name))
            counts[group][kind] += 1
            counts["all"][kind] += 1
            if detail:
                details[kind, detail].append(name.rpartition(":")[2])
    rows = [(group, str(by.total()), *(str(by[kind]) for kind in OUTCOMES)) for group, by in counts.items()]
    yield from markdown_table(("models", "n", *OUTCOMES), rows)
    yield ""
    for (kind, detail), models in sorted(details.items()):
        yield f"- {kind}: {', '.join(models)} ({detail})"


if __name__ == "__main__":
    publish(DISTRIBUTED, "FX", lines(), write=options(__doc__).parse_args().write)
