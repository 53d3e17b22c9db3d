"""``train``, ``predict-model`` and ``evaluate occupancy`` from the command line, on graphs that need no PyTorch."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_occupancies import made_network, made_points

from epochcast.analyzer.backends.occupancy import graph_of as exporting
from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.graph.computation_graph import ComputationGraph
from epochcast.analyzer.backends.occupancy.modelled_kernels import occupancy_of
from epochcast.analyzer.backends.occupancy.points import TARGETS
from epochcast.analyzer.cli import main
from epochcast.analyzer.cli.evaluate import occupancy as evaluate_occupancy
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

Capture = pytest.CaptureFixture[str]

NETWORKS = [
    "lenet",
    "resnet18",
    "vgg11",
    "resnet50",
    "vit_tiny_patch16_224",
    "vit_small_patch16_224",
    "clip_rn50",
    "clip_vit_b32",
]
GPU = "A100 SXM4 80GB"


@pytest.fixture(autouse=True)
def _made_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs that names decide, in place of exports by PyTorch; ``broken`` cannot be built."""

    def graph_of(configuration: Configuration, cache: bool = True) -> ComputationGraph:
        if configuration.network == "broken":
            raise InputError("broken cannot be built; take another")
        return made_network(configuration.network).at_batch(configuration.batch)

    monkeypatch.setattr(exporting, "graph_of", graph_of)
    monkeypatch.setattr(evaluate_occupancy, "_QUICK", ("mean", "nearest"))  # the others take a second each


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("occupancy") / "points.csv"
    made_points(NETWORKS, batches=(4, 16, 32, 64, 128)).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def modelled(table: Path) -> Path:
    """The same networks with labels by the modelled launches."""
    points = pd.read_csv(table)
    gpu = load_catalog().resolve(GPU)
    steps = [
        occupancy_of(made_network(name).at_batch(batch), gpu, "fp32")
        for name, batch in zip(points["network"], points["batch"], strict=True)
    ]
    for target in TARGETS:
        points[target] = [getattr(step, target) for step in steps]
    path = table.with_name("modelled.csv")
    points.assign(labels="modelled").to_csv(path, index=False)
    return path


def _json(capsys: Capture, *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_training_tells_the_contracts_keys_and_predicts_what_it_learnt(table: Path, tmp_path: Path, capsys: Capture) -> None:
    told = _json(capsys, "train", "occupancy", "--data", str(table), "--model", "nearest", "--out", str(tmp_path / "model"))
    assert {"rows", "gpus", "seconds", "networks", "model", "target", "labels", "mape", "factor", "left_out"} <= set(told)
    assert (told["rows"], told["gpus"], told["labels"]) == (40, [GPU], "launch_config")
    answer = _json(
        capsys,
        "predict-model",
        "occupancy",
        "--network",
        "vgg11",
        "--model",
        str(tmp_path / "model"),
        "--batch",
        "64",
        "--batch",
        "16",
    )
    points = pd.read_csv(table).set_index(["network", "batch"])
    assert [one["batch"] for one in answer["predictions"]] == [16, 64] and answer["labels"] == "launch_config"
    for one in answer["predictions"]:
        assert one["gpu"] == GPU and one["occupancy"] == pytest.approx(points.loc[("vgg11", one["batch"]), "mean"])
        assert one["low"] < one["occupancy"] < one["high"]
    assert answer["model"]["mape"] == told["mape"] and answer["nodes"] == len(made_network("vgg11")) == answer["edges"] + 1


def test_a_network_that_cannot_be_built_is_named_and_left_out(table: Path, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "points.csv"
    points = pd.read_csv(table)
    pd.concat([points, points.head(3).assign(network="broken")]).to_csv(path, index=False)
    assert main(["train", "occupancy", "--data", str(path), "--model", "mean", "--out", str(tmp_path / "model")]) == 0
    captured = capsys.readouterr()
    assert "left out: broken: broken cannot be built" in captured.err and "3 the network cannot be built" in captured.out
    answer = _json(capsys, "evaluate", "occupancy", "--data", str(path), "--recipe", "mean")
    assert answer["n"] == 40 and answer["coverage"] == pytest.approx(40 / 43)


def test_without_a_model_the_answer_is_that_of_the_modelled_launches(capsys: Capture) -> None:
    answer = _json(
        capsys, "predict-model", "occupancy", "--network", "resnet18", "--gpu", "T4", "--gpu", GPU, "--precision", "fp16"
    )
    assert answer["labels"] == "modelled" and answer["model"] is None and answer["unknown_operators"] == {}
    assert [one["gpu"] for one in answer["predictions"]] == ["T4", GPU]
    step = occupancy_of(made_network("resnet18").at_batch(32), load_catalog().resolve("T4"), "fp16")
    assert answer["predictions"][0]["occupancy"] == step.mean and answer["predictions"][0]["low"] is None
    assert answer["predictions"][0]["modelled"]["time_mean"] == step.time_mean
    assert any("public traces of compute capability 7.5 are not known" in note for note in answer["notes"])


def test_a_sweep_ends_where_memory_does_and_names_the_smallest_good_batch(tmp_path: Path, capsys: Capture) -> None:
    picture = tmp_path / "sweep.png"
    asked = ("predict-model", "occupancy", "--network", "vgg11", "--gpu", "M60", "--sweep-batches", "--plot", str(picture))
    answer = _json(capsys, *asked)
    batches = [one["batch"] for one in answer["predictions"]]
    assert batches == [2**power for power in range(len(batches))]
    assert all(one["modelled"]["fits"] for one in answer["predictions"])
    (found,) = answer["batches"]
    occupancies = np.array([one["occupancy"] for one in answer["predictions"]])
    assert found["smallest"] == batches[int(np.argmax(occupancies >= 0.95 * occupancies.max()))]
    assert found["largest"] == batches[-1] and found["bound_by_memory"] == (batches[-1] < 4096)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(list(asked)) == 0
    text = capsys.readouterr().out
    assert text.startswith("labels: modelled") and "nothing is claimed for hardware" in text.splitlines()[0]
    assert f"smallest batch within 5 % of it: {found['smallest']}" in text


def test_figures_of_the_contract(table: Path, capsys: Capture) -> None:
    answer = _json(capsys, "evaluate", "occupancy", "--data", str(table), "--recipe", "nearest")
    keys = {
        "mape",
        "median_ape",
        "rmse",
        "r2",
        "n",
        "coverage",
        "by",
        "mse",
        "mre",
        "labels",
        "spread",
        "settings",
        "baselines",
    }
    assert keys <= set(answer)
    assert (answer["protocol"], answer["labels"], answer["n"], answer["coverage"]) == ("model", "launch_config", 40, 1)
    assert answer["mre"] == answer["mape"] and answer["mse"] == pytest.approx(answer["rmse"] ** 2)
    assert set(answer["baselines"]) == {"mean"}
    for key in ("test", "network", "family", "gpu", "precision", "batch", "nodes", "edges"):
        assert sum(one["n"] for one in answer["by"][key].values()) == 40, key
    groups = _json(capsys, "evaluate", "occupancy", "--data", str(table), "--recipe", "mean", "--folds", "2", "--target", "max")
    assert list(groups["by"]["test"]) == ["fold 1", "fold 2"] and groups["target"] == "max"


def test_modelled_labels_are_told_as_such_first(modelled: Path, tmp_path: Path, capsys: Capture) -> None:
    picture = tmp_path / "scatter.svg"
    assert main(["evaluate", "occupancy", "--data", str(modelled), "--recipe", "mean", "--plot", str(picture)]) == 0
    text = capsys.readouterr().out
    assert "nothing is claimed for hardware" in text.splitlines()[0]
    assert "modelled" in picture.read_text() and "measured" not in picture.read_text()


def test_one_table_to_fit_on_and_another_to_test_on(table: Path, modelled: Path, capsys: Capture) -> None:
    answer = _json(capsys, "evaluate", "occupancy", "--train", str(modelled), "--test", str(table), "--recipe", "nearest")
    assert (answer["train_labels"], answer["labels"], answer["protocol"]) == ("modelled", "launch_config", None)
    assert answer["settings"]["train_rows"] == 40
    of_launches = _json(capsys, "evaluate", "occupancy", "--data", str(table), "--recipe", "modelled-launches")
    assert answer["mre"] == pytest.approx(of_launches["mre"], rel=0.01), "it learnt them by heart"


def test_rows_that_were_fitted_on_are_told_to_be_no_test(table: Path, modelled: Path, tmp_path: Path, capsys: Capture) -> None:
    points = pd.read_csv(table)
    points[points["batch"] != 4].head(8).to_csv(tmp_path / "some.csv", index=False)
    networks = points["network"][points["batch"] != 4].head(8).value_counts()
    others = 5 * len(networks) - 8

    def told(train: Path) -> list[str]:
        asked = ["evaluate", "occupancy", "--train", str(train), "--test", str(table), "--recipe", "mean"]
        assert main(asked) == 0
        return [line for line in capsys.readouterr().err.splitlines() if "no test" in line]

    assert told(tmp_path / "some.csv") == [
        "epochcast: 8 of the 40 rows of --test are in --train too: no test",
        f"epochcast: {others} of the 40 rows of --test are of networks that are in --train with other sizes: "
        "no test of new networks",
    ]
    assert told(modelled) == []


@pytest.mark.parametrize(
    ("protocol", "tests", "missing"),
    [
        ("paper", {"seen", "unseen"}, "distilbert"),
        ("transformers", {"vit_small_patch16_224"}, "gpt2"),
        ("clip", {"seen", "unseen"}, "clip_vit_b16"),
    ],
)
def test_the_papers_protocols(table: Path, protocol: str, tests: set[str], missing: str, capsys: Capture) -> None:
    answer = _json(capsys, "evaluate", "occupancy", "--data", str(table), "--protocol", protocol, "--recipe", "mean")
    assert set(answer["by"]["test"]) == tests and missing in answer["settings"]["missing"]
    assert main(["evaluate", "occupancy", "--data", str(table), "--protocol", protocol, "--recipe", "mean"]) == 0
    assert f"not in the table: {', '.join(answer['settings']['missing'])}" in capsys.readouterr().out


def test_a_learning_curve_in_text_and_as_a_picture(table: Path, tmp_path: Path, capsys: Capture) -> None:
    asked = ("evaluate", "occupancy", "--data", str(table), "--protocol", "learning-curve", "--recipe", "nearest")
    answer = _json(capsys, *asked, "--folds", "2", "--plot", str(tmp_path / "curve.png"))
    assert [(one["by"], one["size"]) for one in answer["curve"]] == [
        ("configurations", 16),
        ("configurations", 20),
        ("networks", 2),
        ("networks", 4),
    ]
    assert answer["curve"][1]["mre"] == answer["curve"][3]["mre"] == answer["mre"]
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert main([*asked, "--folds", "2"]) == 0
    assert "16 configurations" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("train", "--data", "nowhere.csv", "--out", "x"), "nowhere.csv"),
        (("train", "--data", "MIXED", "--out", "x"), "choose one by --labels"),
        (("train", "--data", "TABLE", "--out", "x", "--labels", "ncu"), "no row has labels ncu"),
        (("train", "--data", "BROKEN", "--out", "x"), "no network could be built"),
        (("evaluate",), "either --data"),
        (("evaluate", "--data", "TABLE", "--train", "TABLE", "--test", "TABLE"), "either --data"),
        (("evaluate", "--data", "TWO"), "3 or more"),
        (("evaluate", "--data", "TWO", "--protocol", "transformers"), "Table V"),
        (("evaluate", "--data", "TABLE", "--protocol", "paper", "--folds", "3"), "leave --folds out"),
        (("evaluate", "--data", "TABLE", "--recipe", "modelled-launches", "--protocol", "learning-curve"), "learns nothing"),
        (("evaluate", "--data", "MODELLED", "--recipe", "modelled-launches"), "made the modelled labels itself"),
        (("evaluate", "--data", "TABLE", "--recipe", "mean", "--plot", "x.txt"), "x.txt"),
        (("predict", "--network", "lenet"), "no GPU is named"),
        (("predict", "--network", "lenet", "--gpu", "V100"), "V100 SXM2 16GB"),
        (("predict", "--network", "broken", "--gpu", "T4"), "broken cannot be built"),
        (("predict", "--network", "lstm", "--gpu", "T4", "--image-size", "9"), "image size"),
        (("predict", "--network", "lenet", "--gpu", "T4", "--model", "nowhere"), "nowhere"),
        (("predict", "--network", "lenet", "--gpu", "T4", "--batch", "2", "--sweep-batches"), "leave out the batch"),
        (("predict", "--network", "lenet", "--gpu", "T4", "--plot", "x.png"), "several --batch"),
        (("predict", "--network", "missing.onnx", "--gpu", "T4"), "missing.onnx"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    table: Path, tmp_path: Path, arguments: tuple[str, ...], said: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = pd.read_csv(table)
    tables = {
        "TABLE": points,
        "MIXED": pd.concat([points.head(9), points.tail(9).assign(labels="modelled")]),
        "MODELLED": points.assign(labels="modelled"),
        "TWO": points[points["network"].isin(["lenet", "vgg11"])],
        "BROKEN": points.head(5).assign(network="broken"),
    }
    monkeypatch.chdir(tmp_path)
    for name, one in tables.items():
        one.to_csv(f"{name}.csv", index=False)
    command, *rest = arguments
    words = [{"predict": "predict-model"}.get(command, command), "occupancy", *rest]
    assert main([f"{word}.csv" if word in tables else word for word in words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and not captured.out


def test_a_folder_that_cannot_be_written_is_told_before_the_fit(
    table: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(*_: object) -> None:
        raise AssertionError("the fit began")

    monkeypatch.setattr("epochcast.analyzer.backends.occupancy.predictor.Predictor.fit", fit)
    (tmp_path / "taken").write_text("")
    assert main(["train", "occupancy", "--data", str(table), "--out", str(tmp_path / "taken")]) == 2
    assert "holds no model of `epochcast train occupancy`; name a new folder" in capsys.readouterr().err


def test_a_network_larger_than_memory_is_one_sentence(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "gpus.toml").write_text(
        '[[gpu]]\nname = "Tiny"\ncompute_capability = 8.0\nsm_count = 4\ncuda_cores = 256\nboost_clock = 1e9\n'
        "memory = 500_000_000\nmemory_bandwidth = 1e10\ntdp = 10\n"
    )
    asked = ["predict-model", "occupancy", "--network", "vgg11", "--gpu", "Tiny", "--gpus", str(tmp_path / "gpus.toml")]
    assert main([*asked, "--sweep-batches"]) == 2
    assert "does not fit Tiny even at batch 1" in capsys.readouterr().err


def test_without_torch_what_needs_it_says_so(table: Path, tmp_path: Path) -> None:
    """Where no graph is kept on disk and PyTorch is missing: one sentence for both a graph and a neural model."""
    code = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.split('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}')\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "from epochcast.analyzer.cli import main\n"
        "sys.exit(main(['predict-model', 'occupancy', '--network', 'lenet', '--gpu', 'T4']))\n"
    )
    environment = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "PyTorch" in done.stderr and "pip install" in done.stderr


def test_a_real_network_from_its_name_to_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    pytest.importorskip("torch")
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = ("predict-model", "occupancy", "--network", "lstm", "--gpu", "T4", "--hidden", "32", "--sequence", "4")
    answer = _json(capsys, *asked, "--batch", "8")
    assert answer["sizes"] == {"sequence": 4, "hidden": 32, "layers": 1} and 0 < answer["predictions"][0]["occupancy"] < 1
    assert answer["nodes"] >= 1 and answer["unknown_operators"] == {}
