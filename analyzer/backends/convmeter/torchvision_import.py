"""Importing torchvision also where its compiled operators do not match torch."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_MISSING = re.compile(r"operator (torchvision::\w+) does not exist")
_declared: list[Any] = []


def import_torchvision() -> ModuleType:
    """torchvision; ImportError if it is not installed.

    Package indexes serve torchvision compiled for CUDA beside a torch for processors only. Its library is then not loaded, and
    its Python code stops at the first operator that torch does not know, one for detection that no ConvNet calls. Declared
    under their names, without a kernel, these operators do not stop it.
    """
    import torch

    while True:
        try:
            return import_module("torchvision")
        except RuntimeError as error:
            missing = _MISSING.search(str(error))
            if missing is None:
                raise
            library = torch.library.Library("torchvision", "FRAGMENT")
            library.define(f"{missing[1].removeprefix('torchvision::')}(Tensor x) -> Tensor")
            _declared.append(library)  # the declaration ends with the library
            for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
                del sys.modules[name]  # what was imported halfway
