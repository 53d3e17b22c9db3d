"""The program that is recorded: trains one network for a while and says in a file when its steps ran.

    python -m lab.occupancy.measurement.training_run CONFIGURATION DEVICE SECONDS FILE

CONFIGURATION is the fields of NetworkConfiguration as JSON. FILE becomes the JSON object that :func:`train` returns.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from epochcast.analyzer.backends.distributed.plan.job import PRECISIONS
from epochcast.analyzer.backends.occupancy.networks import SEQUENCES, NetworkConfiguration, build_network
from lab.convmeter.device import failure_reason
from lab.convmeter.phases import HostTimeline, training

NVML_WINDOW_S = 1.0
"""NVML's utilisation is of the past second at most (the agent's metrics.toml)."""

_PATIENCE_S = 600.0  # for building and the first step; a driver's call that never returns would hold up the whole table
_TOKENS = 1000  # that texts are drawn from; every vocabulary of SEQUENCES is larger


class OneTensor(nn.Module):
    """A network that answers one tensor, which is what a step trains on: of several outputs, the sum of their means."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: Any) -> Tensor:
        """The network's tensor as it is; of an answer with several tensors a scalar, whose gradient reaches all of them."""
        answer = self.network(*inputs)
        if isinstance(answer, Tensor):
            return answer
        outputs = [leaf.mean() for leaf in tree_leaves(answer) if isinstance(leaf, Tensor) and leaf.requires_grad]
        return torch.stack(outputs).sum()


def train(configuration: NetworkConfiguration, device: str, seconds: float) -> dict[str, float | str | bool]:
    """Train a network in FP32 with Adam on random data, with PyTorch's defaults: convolutions may compute in TF32.

    Returns:
        ``begin`` and ``end``, unix seconds between which nothing but steps ran, or ``reason`` and ``out_of_memory``: why none
        did, and whether that was the GPU's memory.
    """
    try:
        network, shapes = build_network(configuration, "cpu")
        inputs = tree_map_only(Tensor, lambda tensor: _random(tensor, configuration.network, device), shapes)
        # Without waiting for the device after each step: the host's clock is not read here, and training scripts run ahead too.
        step = training(OneTensor(network).to(device), inputs, PRECISIONS["fp32"], HostTimeline())
        step()
        _finish(device)
        begin = time.time() + NVML_WINDOW_S
        while time.time() < begin + seconds:
            step()
        _finish(device)
    except Exception as error:  # a user's network may raise anything
        full = isinstance(error, torch.OutOfMemoryError) or "CUDA error: out of memory" in str(
            error
        )  # in torch's pool, next to it
        return {"reason": failure_reason(error), "out_of_memory": full}
    return {"begin": begin, "end": time.time()}


def _random(like: Tensor, network: str, device: str) -> Tensor:
    if like.is_floating_point():
        return torch.randn(like.shape, device=device)
    # What the integers of a user's network mean is not known; 0 is valid in most places.
    return torch.randint(_TOKENS if network in SEQUENCES else 1, like.shape, dtype=like.dtype, device=device)


def _finish(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def main() -> None:
    """Train as the arguments say."""
    configuration, device, seconds, file = sys.argv[1:]
    faulthandler.dump_traceback_later(_PATIENCE_S + float(seconds), exit=True)
    Path(file).write_text(json.dumps(train(NetworkConfiguration(**json.loads(configuration)), device, float(seconds))))


if __name__ == "__main__":
    main()
