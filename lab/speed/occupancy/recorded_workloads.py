"""Networks whose kernels public traces hold, built again: graphs next to the launch-config occupancy of what was recorded.

The traces name the networks. Their sizes are written here as they are published (transformers' configuration classes hold
most of them), and batch, tokens, frames and pixels follow from the recorded grids: layer normalisation has a block per row, the
attention kernel a block per head, sample and 128 queries. Where a trace holds several forward passes or parts of one, whole
passes are cut out. Weights are random and lie on the meta device.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from epochcast.analyzer.backends.network.find import import_torchvision
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.graph.from_module import graph_of_module
from epochcast.analyzer.backends.occupancy.modelled_kernels.occupancy import limits_of
from epochcast.regressor import Gpu, load_catalog
from lab.kernels.kernel_table import OccupancySummary, summarise, with_occupancy
from lab.speed.occupancy.launch_configurations import traces

torchvision = import_torchvision()
import transformers  # noqa: E402  after torchvision, which it imports

H100, A100 = "H100 SXM5", "A100 SXM4 40GB"


@dataclass(frozen=True)
class Workload:
    """A recorded forward pass and how to build its network.

    Attributes:
        trace: part of the trace's name.
        build: the network, on the meta device.
        inputs: shapes of tokens, which have two sides, and of pixels.
        batch: samples.
        first, last: kernels of the trace that belong to it, by their place; last is not one of them, None: to the end.
        gpu_name: in the catalogue.
        precision: of weights and activations.
    """

    trace: str
    build: Callable[[], nn.Module]
    inputs: tuple[tuple[int, ...], ...]
    batch: int
    first: int = 0
    last: int | None = None
    gpu_name: str = H100
    precision: str = "bf16"

    @property
    def gpu(self) -> Gpu:
        """That it was recorded on."""
        return load_catalog().resolve(self.gpu_name)

    def graph(self) -> ComputationGraph:
        """Of the network."""
        with torch.device("meta"):
            inputs = [torch.zeros(shape, dtype=torch.long if len(shape) == 2 else torch.float32) for shape in self.inputs]
            return graph_of_module(self.build(), tuple(inputs), self.trace, self.batch)

    def recorded(self) -> OccupancySummary:
        """Launch-config occupancy of the recorded kernels."""
        table = traces().table
        kernels = table[table["workload"].str.contains(self.trace, regex=False)].iloc[self.first : self.last]
        kernels = kernels.assign(gpu=self.gpu_name).reset_index(drop=True)
        return summarise(with_occupancy(kernels, {self.gpu_name: limits_of(self.gpu)}))


def _qwen() -> nn.Module:
    config = transformers.Qwen2Config(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=24,
        num_attention_heads=16,
        num_key_value_heads=16,
        use_cache=False,
    )
    return transformers.Qwen2Model(config)


def _owl() -> nn.Module:
    text = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
    vision = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
    config = transformers.Owlv2Config(
        text_config=text, vision_config={**vision, "image_size": 1008, "patch_size": 14}, projection_dim=768
    )
    config._attn_implementation = "eager"
    return transformers.Owlv2ForObjectDetection(config)


def _bert() -> nn.Module:
    config = transformers.BertConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)
    return transformers.BertForMaskedLM(config)


def _timesformer() -> nn.Module:
    return transformers.TimesformerForVideoClassification(transformers.TimesformerConfig(num_frames=8, num_labels=400))


WORKLOADS = {
    # 788 rows = 4 x 197
    "vit-base-16": Workload("Falconsai_nsfw", lambda: transformers.ViTModel(transformers.ViTConfig()), ((4, 3, 224, 224),), 4),
    # 8944 rows, 16 x 16 heads: 16 x 559
    "qwen1.5-0.5b": Workload("Qwen1.5-0.5B", _qwen, ((16, 559),), 16, first=436),
    # 25089 rows = 128 frames x 196 + 1; 3136 x 12 x 8
    "timesformer": Workload("timesformer", _timesformer, ((1, 128, 3, 224, 224),), 1),
    # 141 rows, 8 heads
    "bert-small": Workload("bert-small", _bert, ((1, 141),), 1),
    # 5185 and 5 rows; the trace has five passes alike of 866 kernels: one, from the second convolution to the next
    "owlv2-large": Workload("owlv2-large", _owl, ((1, 5), (1, 3, 1008, 1008)), 1, 2, 868),
    # 24 780 800 = 128 x 64 x 55 x 55
    "alexnet": Workload("alexnet", torchvision.models.alexnet, ((128, 3, 224, 224),), 128, 1, 40, A100, "fp32"),
}
"""By name."""
