"""The small models that are trained for real on a CPU, so that an iteration takes 20 ms to 2 s."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.distributed.models.building import build, example_inputs
from epochcast.analyzer.backends.distributed.models.named import from_text
from epochcast.analyzer.backends.distributed.precision import Precision


class WithLoss(nn.Module):
    """A classifier that answers its loss."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """``x`` (batch, …) and ``labels`` (batch,) to a scalar."""
        return nn.functional.cross_entropy(self.body(x), labels)


def _mlp() -> nn.Module:
    widths = (784, 1024, 1024, 1024)
    layers = [part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return WithLoss(nn.Sequential(*layers, nn.Linear(widths[-1], 10)))


def _cnn() -> nn.Module:
    channels = (3, 32, 64, 128)
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(channels):
        layers += [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]
    return WithLoss(nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels[-1] * 16, 100)))


@dataclass(frozen=True)
class SmallModel:
    """A model, the batch sizes that it trains at, and its optimizer.

    Attributes:
        build: makes the module on a device, FP32.
        inputs: makes inputs and targets of a batch on a device.
    """

    name: str
    batches: Sequence[int]
    optimizer: Literal["adam", "sgd"]
    build: Callable[[str], nn.Module]
    inputs: Callable[[int, str], tuple[Tensor, Tensor]]

    def ready(self, batch: int, precision: Precision, device: str) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
        """Module and inputs in the precision's dtype; integers stay."""
        dtype = getattr(torch, precision.weights)
        inputs, targets = self.inputs(batch, device)
        return self.build(device).to(dtype), (inputs.to(dtype) if inputs.is_floating_point() else inputs, targets)


def _built_in(name: str, text: str, batches: Sequence[int], sequence: int = 128, eager: bool = False) -> SmallModel:
    architecture = from_text(text)
    return SmallModel(
        name,
        batches,
        "sgd" if architecture.style == "resnet" else "adam",
        lambda device: build(architecture, "eager" if eager else "fused", device=device),
        lambda batch, device: example_inputs(architecture, batch, sequence, device),
    )


def _plain(
    name: str, shape: tuple[int, ...], classes: int, batches: Sequence[int], make: Callable[[], nn.Module]
) -> SmallModel:
    def on(device: str) -> nn.Module:
        with torch.device(device):
            return make()

    def inputs(batch: int, device: str) -> tuple[Tensor, Tensor]:
        return torch.randn(batch, *shape, device=device), torch.randint(classes, (batch,), device=device)

    return SmallModel(name, batches, "sgd", on, inputs)


SMALL_MODELS = (
    _built_in("gpt2", "gpt2:hidden=256,layers=4,heads=4,vocab=8192", (2, 8)),
    _built_in("llama", "llama:hidden=256,layers=4,heads=8,kv_heads=4,ffn=688,vocab=8192", (2, 8)),
    _built_in("bert-eager", "bert:hidden=256,layers=4,heads=4,vocab=8192", (2, 8), eager=True),
    _built_in("opt", "opt:hidden=192,layers=6,heads=6,vocab=4096", (2, 8)),
    _built_in("vit", "vit:hidden=192,layers=6,heads=3,image_size=64,patch=8,classes=100", (4, 16)),
    _built_in("resnet18", "resnet:stages=2-2-2-2,image_size=64,classes=100", (4, 16)),
    _plain("cnn", (3, 32, 32), 100, (32, 128), _cnn),
    _plain("mlp", (784,), 10, (256, 1024), _mlp),
)
