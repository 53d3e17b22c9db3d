"""Commands of the workshop, run in this process, and tables that they read."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ..analyzer.conftest import one_thread
from ..analyzer.occupancy.made_trainings import trainings
from ..detector.conftest import cpu_training, real_trace
from ..regressor.conftest import catalog, made_up_profiles, make_profile, make_up, pairs, public_profiles, rates

__all__ = [
    "catalog",
    "cpu_training",
    "made_up_profiles",
    "make_profile",
    "make_up",
    "one_thread",
    "pairs",
    "public_profiles",
    "rates",
    "real_trace",
]

TINY = "gpt:hidden=128,layers=4,heads=4,vocab=512,positions=128"
LARGER = "gpt:hidden=256,layers=4,heads=4,vocab=512,positions=128"


@pytest.fixture
def lab(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run ``python -m lab.NAME …``; what it prints, or its one sentence where it ends with 2."""

    def run(name: str, *arguments: object, status: int = 0) -> str:
        capsys.readouterr()
        assert importlib.import_module(f"lab.{name}.__main__").main([*map(str, arguments)]) == status
        said = capsys.readouterr()
        if status != 2:
            return said.out
        assert said.err.count("\n") == 1 and not said.out, said
        return said.err

    return run


@pytest.fixture
def lab_answer(lab: Callable[..., str]) -> Callable[..., Any]:
    """The same with ``--json``; its answer."""
    return lambda name, *arguments, **status: json.loads(lab(name, *arguments, "--json", **status))


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Iterations of two small models on up to 16 GPUs."""
    rows = [
        (model, "A100 SXM4 80GB", seconds / data**0.5, data, tensor, pipeline, 1, 32, 128, "fp16", "none")
        for model, seconds in ((TINY, 0.03), (LARGER, 0.07))
        for data, tensor, pipeline in ((1, 1, 1), (2, 1, 1), (4, 2, 1), (4, 1, 2), (2, 2, 2), (8, 2, 1))
    ]
    parallel = ["data", "tensor", "pipeline", "micro_batch", "global_batch"]
    columns = ["model", "gpu", "seconds", *parallel, "sequence_length", "precision", "recomputation"]
    path = tmp_path_factory.mktemp("runs") / "runs.csv"
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Operators of two GPUs in NeuSight's form, whose times follow FLOPs and elements."""
    folder, rng = tmp_path_factory.mktemp("operators"), np.random.default_rng(0)
    products, passes = [], []
    for device, slower in (("Tesla T4", 4.0), ("NVIDIA A100-PCIE-40GB", 1.0)):
        for op, most in (("linear", 1), ("bmm", 512)):
            for _ in range(60):
                b = int(rng.integers(1, most + 1))
                m, n, k = (int(2 ** rng.uniform(5, 11)) for _ in "mnk")
                products.append((op, slower * (1e-10 * b * m * n * k + 1e-2), device, b, m, n, k))
        for op in ("ln", "softmax", "add", "gelu"):
            for _ in range(30):
                rows, columns = int(2 ** rng.uniform(0, 16)), int(2 ** rng.uniform(5, 11))
                passes.append((op, slower * (1e-8 * rows * columns + 1e-2), device, rows, columns))
    pd.DataFrame(products, columns=["OPName", "Latency", "Device", *"BMNK"]).to_csv(folder / "products.csv", index=False)
    pd.DataFrame(passes, columns=["OPName", "Latency", "Device", *"BH"]).to_csv(folder / "passes.csv", index=False)
    return folder


@pytest.fixture(scope="session")
def measured_trainings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trainings whose occupancy and memory follow from width and batch."""
    return trainings(tmp_path_factory.mktemp("trainings") / "trainings.csv", 80)
