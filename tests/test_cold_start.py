"""What a command must not load before it answers: these packages take longer than the answer (lab/speed/cold_start.py)."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.traces.trace import Trace, write_trace

HEAVY = (
    *("numpy", "pandas", "pyarrow", "scipy", "sklearn", "catboost", "matplotlib", "torch", "pydantic", "requests", "jinja2"),
    *("fastapi", "prometheus_client", "importlib.metadata"),
)
PREDICTING = ("sklearn", "catboost", "matplotlib", "torch", "pydantic", "requests", "scipy")
DRAWING = ("matplotlib", "torch", "requests", "fastapi")


def _loaded(*commands: tuple[str | Path, ...]) -> list[set[str]]:
    """Modules in one process, after each of the commands that it ran one after another."""
    code = (
        "import json, sys\n"
        "from epochcast.analyzer.entry import main\n"
        "for arguments in json.loads(sys.argv[1]):\n"
        "    sys.argv[:] = ['epochcast', *arguments]\n"
        "    if status := main():\n"
        "        sys.exit(status)\n"
        "    print('LOADED', *sys.modules)\n"
    )
    asked = json.dumps([[str(argument) for argument in command] for command in commands])
    done = subprocess.run([sys.executable, "-c", code, asked], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = [set(line.split()[1:]) for line in done.stdout.splitlines() if line.startswith("LOADED ")]
    assert len(loaded) == len(commands)
    return loaded


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A square wave of 20 s on a GPU that the catalogue has, in each format."""
    time = np.arange(0, 200, 0.1)
    frame = pd.DataFrame(
        {"time": time, "sm_active": np.where(time % 20 < 18, 0.9, 0.1), "power": np.where(time % 20 < 18, 65.0, 40.0)}
    )
    folder = tmp_path_factory.mktemp("cold")
    trace = Trace(frame, gpu="Tesla T4", source="nvml")
    return [write_trace(trace, folder / f"run.{ending}") for ending in ("parquet", "csv")]


def test_commands_that_only_talk_load_nothing_heavy() -> None:
    """Helps of the whole, of commands and of groups, which load none of their commands; the version comes last."""
    of_plugins = ("predict-model", "fit")
    talks = [("--help",), ("serve", "--help"), ("gpus", "--help"), *((group, "--help") for group in of_plugins)]
    *helps, version = _loaded(*talks, ("--version",))
    for talk, loaded in zip(talks, helps, strict=True):
        finds_plugins = {"importlib.metadata"} if talk[0] in of_plugins else set()
        assert not loaded & set(HEAVY) - finds_plugins, talk
    assert not version & set(HEAVY) - {"importlib.metadata"}


def test_detection_loads_neither_what_predicts_nor_what_draws_and_a_prediction_only_its_own_recipe(traces: list[Path]) -> None:
    """In one process, the lighter command first: what is loaded for a trace is still there to be seen after the next."""
    detections, predictions = ([(name, trace) for trace in traces] for name in ("detect", "recommend"))
    loaded = _loaded(*detections, *predictions)
    for detection, prediction in zip(loaded[:2], loaded[2:], strict=True):
        assert not detection & set(PREDICTING)
        assert not prediction & set(DRAWING)


def test_a_figure_of_epochs_loads_nothing_that_predicts(traces: list[Path]) -> None:
    (loaded,) = _loaded(("detect", traces[0], "--plot", traces[0].with_suffix(".png")))
    assert loaded & set(PREDICTING) == {"matplotlib"}
