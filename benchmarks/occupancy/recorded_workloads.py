"""Networks whose kernels public traces hold, built again: graphs beside the launch-config occupancy of what was recorded.

The traces name the networks. Their sizes are written here as they are published (transformers' configuration classes hold
most of them), and batch, tokens, frames and pixels follow from the recorded grids: layer normalisation has a block per row, the
attention kernel a block per head, sample and 128 queries. Where a trace holds several forward passes or parts of one, whole
passes are cut out. Weights are random and lie on the meta device.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.networks.find_network import import_torchvision
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.graph.from_module import graph_of_module
from epochcast.analyzer.backends.occupancy.launch.gpu_limits import limits_of
from epochcast.analyzer.backends.occupancy.launch.kernel_table import Summary, summarise, with_occupancy
from epochcast.regressor import Gpu, load_catalog

from .launch_configurations import traces

import_torchvision()

H100, A100 = "H100 SXM5", "A100 SXM4 40GB"


@dataclass(frozen=True)
class Workload:
    """A recorded forward pass and how to build its network.

    Attributes:
        trace: part of the trace's name.
        build: the network, on the meta device.
        inputs: by name, each a shape of whole numbers or pixels.
        batch: samples.
        first, last: kernels of the trace that belong to it, by their place; last is not one of them, None: to the end.
        gpu: name in the catalogue.
        precision: of weights and activations.
    """

    trace: str
    build: Callable[[Any], nn.Module]
    inputs: Mapping[str, tuple[int, ...]]
    batch: int
    first: int = 0
    last: int | None = None
    gpu: str = H100
    precision: str = "bf16"


@dataclass(frozen=True)
class Recorded:
    """A workload with its graph, and the summed up launch-config occupancy of its recorded kernels."""

    name: str
    workload: Workload
    graph: ComputationGraph
    gpu: Gpu
    summary: Summary


def recorded() -> list[Recorded]:
    """All workloads; needs transformers and torchvision."""
    return [_recorded(name, workload) for name, workload in WORKLOADS.items()]


def _recorded(name: str, workload: Workload) -> Recorded:
    import transformers

    gpu, table = load_catalog().resolve(workload.gpu), traces().table
    kernels = table[table["workload"].str.contains(workload.trace, regex=False)].iloc[workload.first : workload.last]
    summary = summarise(with_occupancy(kernels.assign(gpu=gpu.name).reset_index(drop=True), {gpu.name: limits_of(gpu)}))
    with torch.device("meta"):
        network = workload.build(transformers)
        inputs = [
            torch.zeros(shape, dtype=torch.long if "ids" in what else torch.float32) for what, shape in workload.inputs.items()
        ]
    module = _Called(network, *workload.inputs)
    return Recorded(name, workload, graph_of_module(module, tuple(inputs), name, workload.batch), gpu, summary)


class _Called(nn.Module):
    """A network called with keyword arguments, answering tensors alone."""

    def __init__(self, network: nn.Module, *names: str) -> None:
        super().__init__()
        self.network = network
        self.names = names

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        answer = self.network(**dict(zip(self.names, inputs, strict=True)))
        return (answer,) if isinstance(answer, Tensor) else tuple(one for one in answer.values() if isinstance(one, Tensor))


def _qwen(of: Any) -> nn.Module:
    config = of.Qwen2Config(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=24,
        num_attention_heads=16,
        num_key_value_heads=16,
        use_cache=False,
    )
    return of.Qwen2Model(config)


def _owl(of: Any) -> nn.Module:
    text = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    vision = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
    config = of.Owlv2Config(
        text_config=text, vision_config={**vision, "image_size": 1008, "patch_size": 14}, projection_dim=768
    )
    config._attn_implementation = "eager"
    return of.Owlv2ForObjectDetection(config)


def _bert(of: Any) -> nn.Module:
    config = of.BertConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)
    return of.BertForMaskedLM(config)


def _timesformer(of: Any) -> nn.Module:
    return of.TimesformerForVideoClassification(of.TimesformerConfig(num_frames=8, num_labels=400))


def _alexnet(of: Any) -> nn.Module:
    return import_torchvision().models.alexnet()


WORKLOADS = {
    # 788 rows = 4 x 197
    "vit-base-16": Workload("Falconsai_nsfw", lambda of: of.ViTModel(of.ViTConfig()), {"pixel_values": (4, 3, 224, 224)}, 4),
    # 8944 rows, 16 x 16 heads: 16 x 559
    "qwen1.5-0.5b": Workload("Qwen1.5-0.5B", _qwen, {"input_ids": (16, 559)}, 16, first=436),
    # 25089 rows = 128 frames x 196 + 1; 3136 x 12 x 8
    "timesformer": Workload("timesformer", _timesformer, {"pixel_values": (1, 128, 3, 224, 224)}, 1),
    # 141 rows, 8 heads
    "bert-small": Workload("bert-small", _bert, {"input_ids": (1, 141)}, 1),
    # 5185 and 5 rows; the trace has five passes alike of 866 kernels: one, from the second convolution to the next
    "owlv2-large": Workload("owlv2-large", _owl, {"input_ids": (1, 5), "pixel_values": (1, 3, 1008, 1008)}, 1, 2, 868),
    # 24 780 800 = 128 x 64 x 55 x 55
    "alexnet": Workload("alexnet", _alexnet, {"x": (128, 3, 224, 224)}, 128, 1, 40, A100, "fp32"),
}
