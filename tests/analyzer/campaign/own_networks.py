"""A user's own networks for `test_trainings.py`: one that is well, and some that are not."""

import os
import signal
import time
from pathlib import Path

import torch
from torch import nn


def good(image_size: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * image_size**2, classes))


def scheduled(image_size: int, classes: int) -> nn.Module:
    """Computes with a tensor while it is built, as networks with stochastic depth do: not possible without memory."""
    return good(image_size, classes) if torch.linspace(0, 1, 3)[1].item() == 0.5 else nn.Flatten()


def _about_to_train() -> bool:
    """Whether it is built with its memory, in the process that trains it: before a campaign it is built without."""
    return bool(torch.get_default_device().type != "meta")


def killed(image_size: int, classes: int) -> nn.Module:
    """As the kernel does it where memory is short."""
    if _about_to_train():
        os.kill(os.getpid(), signal.SIGKILL)
    return good(image_size, classes)


def hanging(image_size: int, classes: int) -> nn.Module:
    """Says that it hangs by a file, where one is named."""
    if _about_to_train():
        if "HANGS_FILE" in os.environ:
            Path(os.environ["HANGS_FILE"]).touch()
        time.sleep(600)
    return good(image_size, classes)


def picky(image_size: int, classes: int) -> nn.Module:
    if image_size < 8:
        raise ValueError(f"{image_size} pixels are too few")
    return good(image_size, classes)
