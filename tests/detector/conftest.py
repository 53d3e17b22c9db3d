"""What the detector's tests share."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

Real = tuple[np.ndarray, dict[str, np.ndarray], dict[str, Any]]


@pytest.fixture(scope="session")
def cpu_training(shared_data: Path) -> dict[str, Real]:
    """The recorded CPU runs: short name (`r3`) -> time, metrics, labels."""
    runs = {}
    for path in sorted((shared_data / "detector" / "cpu_training").glob("*.csv")):
        table = np.genfromtxt(path, delimiter=",", names=True)
        assert table.dtype.names
        metrics = {name: table[name] for name in table.dtype.names if name != "t"}
        runs[path.stem.split("_")[0]] = (table["t"], metrics, json.loads(path.with_suffix(".json").read_text()))
    return runs


@pytest.fixture(scope="session")
def real_trace(shared_data: Path) -> Callable[[str], Real]:
    """A trace of a real GPU by its name: time, metrics, labels."""

    @cache
    def read(name: str) -> Real:
        folder = shared_data / "real_traces"
        table = pd.read_csv(folder / f"{name}.csv.gz", comment="#")
        time = table.pop("time").to_numpy()
        return time, {column: table[column].to_numpy() for column in table}, json.loads((folder / f"{name}.json").read_text())

    return read
