"""Networks whose kernels public traces hold, built again: graphs beside the launch-config occupancy of what was recorded.

The traces name the networks. Their sizes are written here as they are published (transformers' configuration classes hold
most of them), and batch, tokens, frames and pixels follow from the recorded grids: layer normalisation has a block per row, the
attention kernel a block per head, sample and 128 queries. Where a trace holds several forward passes or parts of one, whole
passes are cut out.

Used by modelled_kernels.py and as an external test set of predictors. Weights are random and lie on the meta device.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.networks.find_network import import_torchvision
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.graph.from_module import graph_of_module
from epochcast.analyzer.backends.occupancy.launch.gpu_limits import limits_of
from epochcast.analyzer.backends.occupancy.launch.kernel_table import kernel_table, summarise, with_occupancy
from epochcast.regressor import Gpu, load_catalog

import_torchvision()

TRACES = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data" / "occupancy" / "kineto_kernels.csv.gz"


@dataclass(frozen=True)
class Workload:
    """A recorded forward pass and how to build its network.

    Args:
        name: short.
        trace: part of the trace's name.
        first, last: kernels of the trace that belong to it, by their place; last is not one of them, None: to the end.
        passes: how many forward passes these kernels are.
        gpu: name in the catalogue.
        precision: of weights and activations.
        batch: samples.
        sizes: how they were read from the grids.
        build: the network on the meta device, and its inputs.
    """

    name: str
    trace: str
    first: int
    last: int | None
    passes: int
    gpu: str
    precision: str
    batch: int
    sizes: str
    build: Callable[[], tuple[nn.Module, tuple[Any, ...]]]


@dataclass(frozen=True)
class Recorded:
    """A workload with its graph, and the launch-config occupancy (ratios 0..1) of its recorded kernels.

    ``launches`` are those of one forward pass, ``seconds`` their summed durations; ``table`` is the kernel table.
    """

    workload: Workload
    graph: ComputationGraph
    gpu: Gpu
    mean: float
    time_mean: float
    max: float
    launches: float
    seconds: float
    table: pd.DataFrame


def recorded() -> list[Recorded]:
    """All workloads; needs transformers and torchvision."""
    return [_recorded(workload) for workload in WORKLOADS]


def _recorded(workload: Workload) -> Recorded:
    gpu = load_catalog().resolve(workload.gpu)
    table = kernels(workload)
    summary = summarise(with_occupancy(table, {gpu.name: limits_of(gpu)}))
    module, inputs = workload.build()
    graph = graph_of_module(module, inputs, workload.name, workload.batch)
    grid, passes = summary.grid, workload.passes
    launches, seconds = summary.launches / passes, summary.seconds / passes
    return Recorded(workload, graph, gpu, grid.mean, grid.time_mean, grid.max, launches, seconds, table)


def kernels(workload: Workload) -> pd.DataFrame:
    """The recorded kernels as a kernel table."""
    rows = _traces()
    rows = rows[rows["trace"].str.contains(workload.trace, regex=False)].sort_values("idx", kind="stable")
    rows = rows[rows["idx"] >= workload.first]
    if workload.last is not None:
        rows = rows[rows["idx"] < workload.last]
    axes = {f"{what}_{axis}": rows[f"{what}_{axis}"].to_numpy() for what in ("grid", "block") for axis in "xyz"}
    return kernel_table(
        kernel=rows["kernel"].to_numpy(),
        gpu=load_catalog().resolve(workload.gpu).name,
        registers_per_thread=rows["regs_per_thread"].to_numpy(),
        shared_memory=rows["shared_mem"].to_numpy(),
        duration=rows["dur_us"].to_numpy() * 1e-6,
        **axes,
    )


@cache
def _traces() -> pd.DataFrame:
    return pd.read_csv(TRACES, dtype={"cc": str})


def _meta(*shape: int, whole: bool = False) -> Tensor:
    return torch.zeros(shape, dtype=torch.long if whole else torch.float32, device="meta")


class _LastState(nn.Module):
    """A transformer called with keyword arguments, answering tensors alone."""

    def __init__(self, network: nn.Module, *names: str) -> None:
        super().__init__()
        self.network = network
        self.names = names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        answer = self.network(**dict(zip(self.names, inputs, strict=True)), return_dict=True)
        return tuple(one for one in answer.values() if isinstance(one, Tensor))


def _vit() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import ViTConfig, ViTModel

    with torch.device("meta"):
        network = ViTModel(ViTConfig())
    return _LastState(network, "pixel_values"), (_meta(4, 3, 224, 224),)


def _qwen() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import Qwen2Config, Qwen2Model

    config = Qwen2Config(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=24,
        num_attention_heads=16,
        num_key_value_heads=16,
        use_cache=False,
    )
    with torch.device("meta"):
        network = Qwen2Model(config)
    return _LastState(network, "input_ids"), (_meta(16, 559, whole=True),)


def _timesformer() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import TimesformerConfig, TimesformerForVideoClassification

    with torch.device("meta"):
        network = TimesformerForVideoClassification(TimesformerConfig(num_frames=8, num_labels=400))
    return _LastState(network, "pixel_values"), (_meta(1, 128, 3, 224, 224),)


def _bert() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)
    with torch.device("meta"):
        network = BertForMaskedLM(config)
    return _LastState(network, "input_ids"), (_meta(1, 141, whole=True),)


def _owl() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import Owlv2Config, Owlv2ForObjectDetection

    config = Owlv2Config(
        text_config={"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12},
        vision_config={
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "image_size": 1008,
            "patch_size": 14,
        },
        projection_dim=768,
    )
    config._attn_implementation = "eager"
    with torch.device("meta"):
        network = Owlv2ForObjectDetection(config)
    inputs = (_meta(1, 5, whole=True), _meta(1, 3, 1008, 1008))
    return _LastState(network, "input_ids", "pixel_values"), inputs


def _alexnet() -> tuple[nn.Module, tuple[Any, ...]]:
    from torchvision.models import alexnet

    with torch.device("meta"):
        network = alexnet()
    return network, (_meta(128, 3, 224, 224),)


_H100 = "H100 SXM5"
WORKLOADS = (
    Workload("vit-base-16", "Falconsai_nsfw", 0, None, 1, _H100, "bf16", 4, "788 rows = 4 x 197", _vit),
    Workload("qwen1.5-0.5b", "Qwen1.5-0.5B", 436, None, 1, _H100, "bf16", 16, "8944 rows, 16 x 16 heads: 16 x 559", _qwen),
    Workload(
        "timesformer",
        "timesformer",
        0,
        None,
        1,
        _H100,
        "bf16",
        1,
        "25089 rows = 128 frames x 196 + 1; 3136 x 12 x 8",
        _timesformer,
    ),
    Workload("bert-small", "bert-small", 0, None, 1, _H100, "bf16", 1, "141 rows, 8 heads", _bert),
    Workload("owlv2-large", "owlv2-large", 2, 868, 1, _H100, "bf16", 1, "5185 and 5 rows", _owl),
    Workload("alexnet", "alexnet", 1, 40, 1, "A100 SXM4 40GB", "fp32", 128, "24 780 800 = 128 x 64 x 55 x 55", _alexnet),
)
"""Owlv2's trace has five passes alike; the second convolution is its third kernel and the passes are 866 kernels apart, so that
the piece from one convolution to the next is one pass."""
