"""``predict-model occupancy`` from the command line, on graphs that need no PyTorch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_trainings import activation, convolution, ends, trainings

from epochcast.analyzer.backends.occupancy import backend
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.networks import NetworkConfiguration
from epochcast.regressor import load_catalog
from lab.occupancy.fitting import fit_predictor
from lab.occupancy.from_layers import ListedLayer, graph_of_layers
from lab.occupancy.models import save_predictor
from lab.occupancy.training_jobs import read_training_jobs

PREDICT = ("predict-model", "occupancy", "--network")


@pytest.fixture(autouse=True)
def _made_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs that names decide, in place of exports by PyTorch: ``alexnet`` is wider, ``bert`` has what no training had."""

    def graph_of(configuration: NetworkConfiguration) -> ComputationGraph:
        width = 64 if configuration.network == "lenet" else 128
        extra = [ListedLayer("gelu", width * 16**2, 0)] if configuration.network == "bert" else []
        layers = [convolution(3, width, 16), *extra, activation(width, 16), convolution(width, width, 16), *ends(width, 10)]
        return graph_of_layers("made", layers, "uniform", 3, 16, configuration.batch)

    monkeypatch.setattr(backend, "graph_of", graph_of)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trainings(tmp_path_factory.mktemp("occupancy") / "trainings.csv", 120)


@pytest.fixture(scope="module")
def model(table: Path) -> Path:
    pytest.importorskip("torch")  # needed before a network is read
    folder = table.with_name("model")
    save_predictor(fit_predictor(read_training_jobs([table], load_catalog())), folder)
    return folder


def test_a_training_is_fitted_and_others_are_predicted(model: Path, answered: Callable[..., Any]) -> None:
    asked = (*PREDICT, "lenet", "--model", model, "--batch", "48", "--batch", "8", "--gpu", "T4", "--gpu", "A100 SXM4 40GB")
    answer = answered(*asked)
    assert answer["model"]["rows"] == {"sm_occupancy": 118, "sm_active": 119, "peak_memory": 119}
    rows = {(row["gpu"], row["batch"]): row for row in answer["predictions"]}
    assert [row["batch"] for row in answer["predictions"]] == [8, 48, 8, 48]
    small, large = (rows["A100 SXM4 40GB", batch] for batch in (8, 48))
    assert small["sm_occupancy"]["value"] < large["sm_occupancy"]["value"] == pytest.approx(0.002 * (64 * 48) ** 0.5, rel=0.25)
    assert small["peak_memory"]["low"] < small["peak_memory"]["value"] < large["peak_memory"]["value"]
    of_t4 = rows["T4", 48]
    assert {of_t4[label]["basis"] for label in ("sm_occupancy", "sm_active", "peak_memory")} == {"modelled"}
    assert 0 < of_t4["sm_occupancy"]["low"] < of_t4["sm_occupancy"]["value"] < of_t4["sm_occupancy"]["high"] <= 1
    assert any("T4 was not measured" in note for note in answer["notes"])


def test_the_gpu_of_the_trainings_is_usual(model: Path, printed: Callable[..., str]) -> None:
    text = printed(*PREDICT, "lenet", "--model", model)
    assert "SM occupancy" in text and "A100 SXM4 40GB  32" in text and "modelled" not in text
    assert "mean error on left-out architectures: SM occupancy" in text


def test_operators_that_no_training_had_are_modelled(model: Path, printed: Callable[..., str]) -> None:
    text = printed(*PREDICT, "bert", "--model", model)
    assert text.rstrip().endswith("modelled") and "boosted trees" not in text


def test_a_sweep_finds_the_smallest_batch_near_the_highest_and_is_drawn(
    model: Path, tmp_path: Path, answered: Callable[..., Any], printed: Callable[..., str]
) -> None:
    asked = (*PREDICT, "alexnet", "--model", model, "--sweep-batches")
    answer = answered(*asked)
    occupancy = {row["batch"]: row["sm_occupancy"]["value"] for row in answer["predictions"]}
    near = [batch for batch, value in occupancy.items() if value >= 0.95 * max(occupancy.values())]
    assert list(occupancy) == [2**power for power in range(len(occupancy))]
    assert answer["smallest"] == {"A100 SXM4 40GB": min(near)}
    picture = tmp_path / "sweep.png"
    assert f"A100 SXM4 40GB: {min(near)}, of 1 to " in printed(*asked, "--plot", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_batch_beside_a_sweep_is_one_sentence(refused: Callable[..., str]) -> None:
    assert "leave out the batch" in refused(*PREDICT, "lenet", "--batch", "2", "--sweep-batches")


def test_a_drawing_needs_several_batches(model: Path, refused: Callable[..., str]) -> None:
    assert "several --batch" in refused(*PREDICT, "lenet", "--model", model, "--plot", "x.png")


def test_a_network_larger_than_memory_is_one_sentence(model: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "gpus.toml").write_text(
        '[[gpu]]\nname = "Tiny"\ncompute_capability = 8.0\nsm_count = 4\ncuda_cores = 256\nboost_clock = 1e9\n'
        "memory = 500_000_000\nmemory_bandwidth = 1e10\ntdp = 10\n"
    )
    asked = (*PREDICT, "alexnet", "--gpu", "Tiny", "--gpus", tmp_path / "gpus.toml", "--model", model)
    assert "does not fit Tiny even at batch 1" in refused(*asked, "--sweep-batches")


def test_without_torch_what_needs_it_says_so(without_torch: Callable[..., Any]) -> None:
    """Where no graph is kept on disk and PyTorch is missing."""
    done = without_torch(*PREDICT, "lenet")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "torch" in done.stderr.lower() and "pip install" in done.stderr
