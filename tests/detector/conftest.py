"""What the detector's tests share."""

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def naive() -> ModuleType:
    """tests/naive.py, which import mode importlib does not put on the path."""
    spec = importlib.util.spec_from_file_location("naive", ROOT / "tests" / "naive.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def cpu_training() -> dict[str, tuple[np.ndarray, dict[str, np.ndarray], dict[str, Any]]]:
    """The recorded CPU runs: short name (`r3`) -> time, metrics, labels."""
    shared = Path(os.environ.get("EPOCHCAST_SHARED", ROOT.parent / "shared"))
    folder = shared / "data" / "detector" / "cpu_training"
    if not folder.is_dir():
        pytest.skip(f"the recorded CPU runs are absent: set EPOCHCAST_SHARED (looked in {folder})")
    runs = {}
    for path in sorted(folder.glob("*.csv")):
        table = np.genfromtxt(path, delimiter=",", names=True)
        assert table.dtype.names
        metrics = {name: table[name] for name in table.dtype.names if name != "t"}
        runs[path.stem.split("_")[0]] = (table["t"], metrics, json.loads(path.with_suffix(".json").read_text()))
    return runs
