"""The weight update as torch runs it, on weights of the sizes that a rank holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from ..graph import Weight


def optimizer_step(weights: Sequence[Weight], optimizer: Literal["adam", "sgd"], device: str) -> Callable[[], Any]:
    """A call that updates random weights once: AdamW, or SGD with momentum, in torch's default implementation.

    The rate is so low that weights and states stay what they are however often it runs. Gradients have the weight's own dtype,
    as torch asks.
    """
    parameters = []
    for weight in weights:
        dtype = getattr(torch, weight.tensor.dtype)
        parameter = torch.rand(weight.tensor.shape, device=device).to(dtype).requires_grad_()
        parameter.grad = torch.rand(weight.tensor.shape, device=device).to(dtype)
        parameters.append(parameter)
    update: torch.optim.Optimizer
    if optimizer == "adam":
        update = torch.optim.AdamW(parameters, lr=1e-9)
    else:
        update = torch.optim.SGD(parameters, lr=1e-9, momentum=0.9)
    return lambda: update.step()
