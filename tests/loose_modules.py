"""Modules that are in no package: what several tests make. Import mode importlib puts no folder on the path."""

import importlib.util
import sys
from pathlib import Path


def make_importable(path: Path) -> None:
    """Load the file, so that ``import`` finds it under its own name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[path.stem])
