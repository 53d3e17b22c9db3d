"""The program that a campaign runs for each workload: trains one network on made-up images and prints when its epochs were.

Nothing here is arranged for the detector: an epoch shuffles, trains by SGD and validates on a tenth as many images, without a
single sleep. Images are noise of the right size: what is in them does not change how long a training takes.

    python -m lab.campaign.trainer --network LeNet5 --batch-size 32 --image-size 32 --samples 2000 --epochs 5

The labels are the last line of its output, as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

_RATE, _MOMENTUM = 0.01, 0.9
_VALIDATION_SHARE = 10  # one validation image per so many training images
_CLASSES = 10


class Trainer:
    """One network with its images and its optimiser on one device."""

    def __init__(
        self, network: str, *, batch_size: int, image_size: int, samples: int, precision: str, seed: int, device: str
    ) -> None:
        # Here, and not above: only this process pays for it.
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        from lab.campaign.networks import build

        torch.manual_seed(seed)
        self._torch = torch
        self.device = torch.device(device)
        self.network = build(network, image_size, classes=_CLASSES).to(self.device)
        self._loss = nn.CrossEntropyLoss()
        self._optimizer = torch.optim.SGD(self.network.parameters(), lr=_RATE, momentum=_MOMENTUM)
        self._mixed = precision == "amp"
        # A GPU's half precision needs its gradients scaled; a CPU's bfloat16 has the range of float.
        self._scaler = torch.amp.GradScaler(self.device.type, enabled=self._mixed and self.device.type == "cuda")

        def loader(count: int, *, shuffle: bool) -> DataLoader[Any]:
            images = torch.randn(count, 3, image_size, image_size)
            drawn = TensorDataset(images, torch.randint(_CLASSES, (count,)))
            return DataLoader(drawn, batch_size, shuffle=shuffle, pin_memory=self.device.type == "cuda")

        self._train = loader(samples, shuffle=True)
        self._validation = loader(max(1, samples // _VALIDATION_SHARE), shuffle=False)

    def epoch(self) -> tuple[float, float]:
        """Train on every image once, then validate; when that began and when the device had finished it [unix s]."""
        torch = self._torch
        start = time.time()
        self.network.train()
        for images, labels in self._train:
            self._optimizer.zero_grad()
            self._scaler.scale(self._loss_of(images, labels)).backward()
            self._scaler.step(self._optimizer)
            self._scaler.update()
        self.network.eval()
        with torch.no_grad():
            for images, labels in self._validation:
                self._loss_of(images, labels)
        if self.device.type == "cuda":  # what was launched is not yet done
            torch.cuda.synchronize(self.device)
        return start, time.time()

    def _loss_of(self, images: Any, labels: Any) -> Any:
        images, labels = (tensor.to(self.device, non_blocking=True) for tensor in (images, labels))
        with self._torch.autocast(self.device.type, enabled=self._mixed):
            return self._loss(self.network(images), labels)

    def about(self) -> dict[str, Any]:
        """What trained it, for the labels."""
        return {
            "framework": f"torch {self._torch.__version__}",
            "threads": self._torch.get_num_threads(),
            "parameters": sum(weights.numel() for weights in self.network.parameters()),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and print the labels."""
    parser = argparse.ArgumentParser(prog="python -m lab.campaign.trainer")
    parser.add_argument("--network", required=True)
    for size in ("batch-size", "image-size", "samples", "epochs"):
        parser.add_argument(f"--{size}", type=int, required=True)
    parser.add_argument("--precision", choices=("fp32", "amp"), default="fp32")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="torch's name of it (default %(default)s)")
    options = vars(parser.parse_args(arguments))
    epochs = options.pop("epochs")
    trainer = Trainer(**options)
    starts, ends = zip(*(trainer.epoch() for _ in range(epochs)), strict=True)
    print(json.dumps({"epoch_starts": starts, "epoch_ends": ends, "training": True, **trainer.about()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
