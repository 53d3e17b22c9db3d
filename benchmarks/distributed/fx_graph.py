"""Operators by torch.fx, as the paper extracts them, beside those that are recorded; part FX of docs/distributed.md.

    python -m benchmarks.distributed.fx_graph [--write]    (needs torch, torchvision, timm and transformers)

Every model is traced both ways in training under BF16 autocast, two samples. Compared are the multisets of operators: name,
phase, shapes, dtypes, FLOPs and arguments; "same graph" also has their blocks, order, weights and bytes that backward needs.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.distributed.graph import Extraction, Graph, Operator
from epochcast.analyzer.backends.distributed.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.job import Job
from epochcast.analyzer.backends.distributed.models import NAMED
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.analyzer.backends.distributed.trace import trace
from epochcast.analyzer.backends.networks.find_network import find_network
from epochcast.analyzer.errors import InputError

from ..page import DISTRIBUTED, markdown_table, options, publish

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
    *(
        "tnt_s_patch16_224",
        "nf_resnet26",
        "efficientnet_lite0",
        "mobilevit_xxs",
        "xcit_nano_12_p16_224",
        "beit_base_patch16_224",
    ),
    *("poolformer_s12", "edgenext_xx_small", "gmlp_ti16_224", "crossvit_tiny_240", "levit_128s", "coat_tiny", "pit_ti_224"),
)
HUGGING_FACE = ("gpt2", "llama", "bert", "opt", "qwen2", "vit", "distilbert")

_Traced = Callable[[Extraction], Graph]


def built_in(name: str, extraction: Extraction) -> Graph:
    """A model of ours."""
    job = Job(micro_batch=SAMPLES, global_batch=SAMPLES, sequence_length=TOKENS, precision=PRECISION)
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


@dataclass
class Comparison:
    """Of one group: models with the same graph, with the same operators, and what is different of the others."""

    models: int = 0
    same_graph: int = 0
    same_operators: int = 0
    differences: dict[str, str] = field(default_factory=dict)
    by_fx_alone: dict[str, str] = field(default_factory=dict)
    by_neither: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, traced: _Traced) -> None:
        """Trace a model both ways and compare."""
        self.models += 1
        try:
            recorded = traced("recording")
        except InputError as error:
            self.by_neither[name] = str(error)
            return
        try:
            symbolic = traced("fx")
        except InputError as error:
            self.by_fx_alone[name] = _reason(error)
            return
        here, there = _operators(recorded), _operators(symbolic)
        self.same_graph += recorded == symbolic
        self.same_operators += here == there
        if here != there:
            self.differences[name] = f"{_names(here - there)} by the dispatcher, {_names(there - here)} by fx"
        elif recorded != symbolic:
            self.differences[name] = "the same operators, elsewhere or saving other bytes"


def _operators(graph: Graph) -> Counter[Operator]:
    parts = (graph.before, *graph.blocks, graph.after)
    # How many bytes a fused chain moves is a matter of order, which "same graph" compares.
    return Counter(replace(one, fused_bytes=0.0) for block in parts for one in block.operators)


def _names(operators: Counter[Operator]) -> str:
    names: Counter[str] = Counter()
    for one, times in operators.items():
        names[f"`{one.name.removeprefix('aten.')}`"] += times
    return ", ".join(f"{times} {name}" for name, times in names.most_common(3)) or "nothing"


def _reason(error: InputError) -> str:
    """What fx says, without where and without the remedy."""
    return str(error).rpartition("; leave out")[0].partition("): ")[2] or str(error)


def lines() -> Iterator[str]:
    """A table by group; then what is different, and what fx refuses, with the models."""
    groups = {name: Comparison() for name in GROUPS}
    for group, (builder, names) in GROUPS.items():
        for name in names:
            print(name, file=sys.stderr)
            groups[group].add(name, partial(builder, name))
    total = Comparison(
        *(sum(getattr(one, name) for one in groups.values()) for name in ("models", "same_graph", "same_operators"))
    )
    for one in groups.values():
        for name in ("differences", "by_fx_alone", "by_neither"):
            getattr(total, name).update(getattr(one, name))
    rows = [
        (
            name,
            *map(str, (one.models, one.same_graph, one.same_operators)),
            *map(str, (one.models - one.same_operators - len(one.by_fx_alone) - len(one.by_neither), len(one.by_fx_alone))),
            str(len(one.by_neither)),
        )
        for name, one in (*groups.items(), ("all", total))
    ]
    header = ("models", "n", "same graph", "same operators", "other operators", "fx refuses", "both refuse")
    yield from markdown_table(header, rows)
    for title, by_model in (
        ("Other", total.differences),
        ("fx refuses", total.by_fx_alone),
        ("Both refuse", total.by_neither),
    ):
        if by_model:
            models = defaultdict(list)
            for name, what in by_model.items():
                models[what].append(name.rpartition(":")[2])
            yield ""
            yield f"{title}: " + "; ".join(f"{', '.join(names)} ({what})" for what, names in models.items()) + "."


if __name__ == "__main__":
    publish(DISTRIBUTED, "FX", lines(), write=options(__doc__).parse_args().write)
