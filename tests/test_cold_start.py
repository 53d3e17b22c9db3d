"""What a command must not load before it answers: these packages take longer than the answer (benchmarks/cold_start.py)."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.trace import Trace, write_trace

HEAVY = (
    *("numpy", "pandas", "pyarrow", "scipy", "sklearn", "catboost", "matplotlib", "torch", "pydantic", "requests", "jinja2"),
    *("fastapi", "prometheus_client", "importlib.metadata"),
)
PREDICTING = ("sklearn", "catboost", "matplotlib", "torch", "pydantic", "requests", "scipy.signal", "scipy.stats")
DRAWING = ("catboost", "matplotlib", "torch", "requests", "simpy", "fastapi")


def _loaded(*arguments: str | Path) -> set[str]:
    """Modules in the process that ran the command to its end."""
    code = (
        "import sys\n"
        "from epochcast.analyzer.entry import main\n"
        "sys.argv[0] = 'epochcast'\n"
        "status = main()\n"
        "print('\\n'.join(['LOADED', *sys.modules]))\n"
        "sys.exit(status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split("LOADED\n")[1].split())


@pytest.fixture(scope="module", params=["parquet", "csv"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A square wave of 20 s on a GPU that the catalogue has."""
    time = np.arange(0, 200, 0.1)
    frame = pd.DataFrame(
        {"time": time, "sm_active": np.where(time % 20 < 18, 0.9, 0.1), "power": np.where(time % 20 < 18, 65.0, 40.0)}
    )
    path = tmp_path_factory.mktemp("cold") / f"run.{request.param}"
    return write_trace(Trace(frame, gpu="Tesla T4", source="nvml"), path)


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("serve", "--help"), ("gpus", "--help")])
def test_a_command_that_only_talks_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    version = {"importlib.metadata"} if arguments == ("--version",) else set()
    assert not _loaded(*arguments) & set(HEAVY) - version


@pytest.mark.parametrize("command", ["evaluate", "predict-model"])
def test_the_help_of_a_group_loads_none_of_its_commands(command: str) -> None:
    assert not _loaded(command, "--help") & set(HEAVY)


def test_detection_loads_neither_what_predicts_nor_what_draws(trace: Path) -> None:
    assert not _loaded("detect", trace) & set(PREDICTING)


def test_a_prediction_loads_only_its_own_recipe(trace: Path) -> None:
    assert not _loaded("recommend", trace) & set(DRAWING)
