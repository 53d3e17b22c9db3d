"""The network of `cnn_numpy` in PyTorch: same layers, same initial weights, same SGD; used where torch is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from epochcast.analyzer.demo.cnn_numpy import CHANNELS, MOMENTUM, Floats, Parameters


class TorchNetwork:
    """Network and optimiser on one thread of the CPU; the interface and layouts of `cnn_numpy.NumpyNetwork`."""

    framework = "torch"

    def __init__(self, parameters: Parameters) -> None:
        torch.set_num_threads(1)
        self._tensors = {name: nn.Parameter(_to_torch(name, values)) for name, values in parameters.items()}
        self._optimiser = torch.optim.SGD(self._tensors.values(), lr=0.0, momentum=MOMENTUM)

    @property
    def parameters(self) -> Parameters:
        """Copies of all weights, named and laid out as in `cnn_numpy`."""
        return {name: _to_numpy(name, tensor.detach()) for name, tensor in self._tensors.items()}

    @property
    def velocity(self) -> Parameters:
        """Copies of the optimiser's momentum, zeros before the first step."""
        state = self._optimiser.state
        return {
            name: _to_numpy(name, state[tensor].get("momentum_buffer", torch.zeros_like(tensor)).detach())
            for name, tensor in self._tensors.items()
        }

    def train_batch(self, images: Floats, labels: NDArray[np.int64], rate: float) -> float:
        """One step of SGD on a batch of shape (n, size, size, 1); returns the mean cross-entropy before the step [nats]."""
        self._optimiser.param_groups[0]["lr"] = rate
        self._optimiser.zero_grad()
        loss = functional.cross_entropy(self._forward(images), torch.from_numpy(labels))
        loss.backward()
        self._optimiser.step()
        return float(loss.item())

    def logits(self, images: Floats) -> Floats:
        """Class scores of shape (n, classes), without gradient."""
        with torch.no_grad():
            scores: Floats = self._forward(images).numpy()
        return scores

    def _forward(self, images: Floats) -> Any:
        x = torch.from_numpy(np.ascontiguousarray(images)).permute(0, 3, 1, 2)
        for i in range(1, len(CHANNELS)):
            x = functional.conv2d(x, self._tensors[f"conv{i}.weight"], self._tensors[f"conv{i}.bias"], padding=1)
            x = functional.max_pool2d(functional.relu(x), 2)
        x = x.permute(0, 2, 3, 1).flatten(1)
        for name in ("hidden", "output"):
            x = x if name == "hidden" else functional.relu(x)
            x = functional.linear(x, self._tensors[f"{name}.weight"], self._tensors[f"{name}.bias"])
        return x


def _to_torch(name: str, values: Floats) -> Any:
    tensor = torch.from_numpy(values.copy())
    if not name.endswith("weight"):
        return tensor
    if not name.startswith("conv"):
        return tensor.T.contiguous()
    inputs = values.shape[0] // 9
    return tensor.reshape(3, 3, inputs, -1).permute(3, 2, 0, 1).contiguous()


def _to_numpy(name: str, tensor: Any) -> Floats:
    if name.endswith("weight"):
        tensor = tensor.permute(2, 3, 1, 0).reshape(-1, tensor.shape[0]) if name.startswith("conv") else tensor.T
    values: Floats = np.array(tensor.numpy())
    return values
