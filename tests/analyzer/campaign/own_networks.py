"""A user's own networks for `test_trainings.py`: one that is well, and some that are not."""

import os
import signal
import time

import torch
from torch import nn


class _Spoilt(nn.Module):
    def __init__(self, do: object) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(10))
        self.do = do

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.do()  # type: ignore[operator]
        return images.mean(dim=(1, 2, 3))[:, None] * self.weight


def good(image_size: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * image_size**2, classes))


def scheduled(image_size: int, classes: int) -> nn.Module:
    """Computes with a tensor while it is built, as networks with stochastic depth do: not possible without memory."""
    return good(image_size, classes) if torch.linspace(0, 1, 3)[1].item() == 0.5 else nn.Flatten()


def killed(image_size: int, classes: int) -> nn.Module:
    """As the kernel does it where memory is short."""
    return _Spoilt(lambda: os.kill(os.getpid(), signal.SIGKILL))


def hanging(image_size: int, classes: int) -> nn.Module:
    return _Spoilt(lambda: time.sleep(600))


def picky(image_size: int, classes: int) -> nn.Module:
    if image_size < 8:
        raise ValueError(f"{image_size} pixels are too few")
    return good(image_size, classes)
