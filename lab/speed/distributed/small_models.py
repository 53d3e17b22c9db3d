"""The small models that are trained for real on a CPU, so that an iteration takes 20 ms to 2 s, and their training loop."""

from __future__ import annotations

import itertools
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.distributed.models.building import build, example_inputs
from epochcast.analyzer.backends.distributed.models.configuration import from_text
from epochcast.analyzer.backends.distributed.plan.job import Attention, Precision, precision_named


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
    """Batch sizes that a model trains at, its optimizer, and what makes the FP32 module and a batch on a device."""

    batches: Sequence[int]
    optimizer: Literal["adam", "sgd"]
    build: Callable[[str], nn.Module]
    inputs: Callable[[int, str], tuple[Tensor, Tensor]]

    def ready(self, batch: int, precision: Precision, device: str) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
        """Module and inputs in the precision's dtype; integers stay."""
        dtype = getattr(torch, precision.weights)
        with torch.device(device):
            module, (inputs, targets) = self.build(device), self.inputs(batch, device)
        return module.to(dtype), (inputs.to(dtype) if inputs.is_floating_point() else inputs, targets)


def _built_in(text: str, batches: Sequence[int], attention: Attention = "fused") -> SmallModel:
    of = from_text(text)
    return SmallModel(
        batches,
        "sgd" if of.kind == "resnet" else "adam",
        lambda device: build(of, attention, device=device),
        lambda batch, device: example_inputs(of, batch, 128, device),
    )


def _classifier(shape: tuple[int, ...], classes: int, batches: Sequence[int], build: Callable[[], nn.Module]) -> SmallModel:
    return SmallModel(
        batches,
        "sgd",
        lambda device: build(),
        lambda batch, device: (torch.randn(batch, *shape), torch.randint(classes, (batch,))),
    )


SMALL_MODELS = {
    "gpt2": _built_in("gpt2:hidden=256,layers=4,heads=4,vocab=8192", (2, 8)),
    "llama": _built_in("llama:hidden=256,layers=4,heads=8,kv_heads=4,ffn=688,vocab=8192", (2, 8)),
    "bert-eager": _built_in("bert:hidden=256,layers=4,heads=4,vocab=8192", (2, 8), attention="eager"),
    "opt": _built_in("opt:hidden=192,layers=6,heads=6,vocab=4096", (2, 8)),
    "vit": _built_in("vit:hidden=192,layers=6,heads=3,image_size=64,patch=8,classes=100", (4, 16)),
    "resnet18": _built_in("resnet:stages=2-2-2-2,image_size=64,classes=100", (4, 16)),
    "cnn": _classifier((3, 32, 32), 100, (32, 128), _cnn),
    "mlp": _classifier((784,), 10, (256, 1024), _mlp),
}


@dataclass(frozen=True)
class Cell:
    """One training configuration."""

    model: str
    batch: int
    precision: str


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}

_training: dict[Cell, Callable[[], None]] = {}
"""The cell that this process trains, and its iteration."""


def train(cell: Cell, iterations: int, clock: str) -> list[tuple[float, int]]:
    """Seconds and page faults of each iteration; the same cell trains on."""
    if cell not in _training:
        _training.clear()  # frees the last model first
        _training[cell] = _iteration(cell)
    now, answer = CLOCKS[clock], []
    for _ in range(iterations):
        faults, begin = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, now()
        _training[cell]()
        answer.append((now() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults))
    return answer


def _iteration(cell: Cell) -> Callable[[], None]:
    model, precision = SMALL_MODELS[cell.model], precision_named(cell.precision)
    module, inputs = model.ready(cell.batch, precision, "cpu")
    if model.optimizer == "adam":
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    else:
        optimizer = torch.optim.SGD(module.parameters(), lr=1e-3, momentum=0.9)

    def iteration() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision.autocast is not None):
            loss = module(*inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return iteration
