"""``train``, ``predict-model`` and ``evaluate occupancy`` from the command line, on graphs that need no PyTorch."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

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

VITS = [f"vit_{size}_patch16_224" for size in ("tiny", "small")]
NETWORKS = ["lenet", "resnet18", "vgg11", "resnet50", *VITS, "clip_rn50", "clip_vit_b32"]
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


def evaluate(*arguments: object) -> tuple[object, ...]:
    return ("evaluate", "occupancy", *arguments)


def test_a_network_that_cannot_be_built_is_named_and_left_out(
    table: Path, tmp_path: Path, answered: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "points.csv"
    points = pd.read_csv(table)
    pd.concat([points, points.head(3).assign(network="broken")]).to_csv(path, index=False)
    assert main(["train", "occupancy", "--data", str(path), "--model", "mean", "--out", str(tmp_path / "model")]) == 0
    captured = capsys.readouterr()
    assert "left out: broken: broken cannot be built" in captured.err and "3 the network cannot be built" in captured.out
    answer = answered(*evaluate("--data", path, "--recipe", "mean", "--folds", 2, "--target", "max"))
    assert (answer["n"], answer["coverage"], answer["target"]) == (40, pytest.approx(40 / 43), "max")
    assert list(answer["by"]["test"]) == ["fold 1", "fold 2"]


def test_a_sweep_is_told_and_drawn(tmp_path: Path, printed: Callable[..., str]) -> None:
    picture = tmp_path / "sweep.png"
    sweep = ("predict-model", "occupancy", "--network", "vgg11", "--gpu", "M60", "--sweep-batches", "--plot", picture)
    text = printed(*sweep)
    assert text.startswith("labels: modelled") and "nothing is claimed for hardware" in text.splitlines()[0]
    assert "smallest batch within 5 % of it: " in text and picture.read_bytes().startswith(b"\x89PNG")


def test_modelled_labels_are_told_as_such_first(modelled: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    picture = tmp_path / "scatter.svg"
    text = printed(*evaluate("--data", modelled, "--recipe", "mean", "--plot", picture))
    assert "nothing is claimed for hardware" in text.splitlines()[0]
    assert "modelled" in picture.read_text() and "measured" not in picture.read_text()


def test_one_table_to_fit_on_and_another_to_test_on(table: Path, modelled: Path, answered: Callable[..., Any]) -> None:
    answer = answered(*evaluate("--train", modelled, "--test", table, "--recipe", "nearest"))
    assert (answer["train_labels"], answer["labels"], answer["protocol"]) == ("modelled", "launch_config", None)
    assert answer["settings"]["train_rows"] == 40
    of_launches = answered(*evaluate("--data", table, "--recipe", "modelled-launches"))
    assert answer["mre"] == pytest.approx(of_launches["mre"], rel=0.01), "it learnt them by heart"


def test_rows_that_were_fitted_on_are_told_to_be_no_test(
    table: Path, modelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = pd.read_csv(table)
    some = points[points["batch"] != 4].head(8)
    some.to_csv(tmp_path / "some.csv", index=False)
    others = 5 * some["network"].nunique() - 8

    def told(train: Path) -> list[str]:
        assert main([*map(str, evaluate("--train", train, "--test", table, "--recipe", "mean"))]) == 0
        return [line for line in capsys.readouterr().err.splitlines() if "no test" in line]

    assert told(tmp_path / "some.csv") == [
        "epochcast: 8 of the 40 rows of --test are in --train too: no test",
        f"epochcast: {others} of the 40 rows of --test are of networks that are in --train with other sizes: "
        "no test of new networks",
    ]
    assert told(modelled) == []


def test_a_protocol_of_the_paper_names_the_networks_that_it_lacks(table: Path, printed: Callable[..., str]) -> None:
    said = printed(*evaluate("--data", table, "--protocol", "paper", "--recipe", "mean"))
    (line,) = (line for line in said.splitlines() if "not in the table: " in line)
    assert "distilbert" in line and "resnet18" not in line


def test_a_learning_curve_in_text_and_as_a_picture(table: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    asked = evaluate("--data", table, "--protocol", "learning-curve", "--recipe", "nearest", "--folds", 2)
    assert "16 configurations" in printed(*asked, "--plot", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("train", "--data", "TABLE", "--out", "x", "--labels", "ncu"), "no row has labels ncu"),
        (("train", "--data", "BROKEN", "--out", "x"), "no network could be built"),
        (("evaluate",), "either --data"),
        (("evaluate", "--data", "TABLE", "--train", "TABLE", "--test", "TABLE"), "either --data"),
        (("evaluate", "--data", "TABLE", "--protocol", "paper", "--folds", "3"), "leave --folds out"),
        (("evaluate", "--train", "TABLE", "--test", "TABLE", "--folds", "3"), "--folds splits one table"),
        (("evaluate", "--data", "TABLE", "--recipe", "modelled-launches", "--protocol", "learning-curve"), "learns nothing"),
        (("evaluate", "--data", "MODELLED", "--recipe", "modelled-launches"), "made the modelled labels itself"),
        (("evaluate", "--data", "TABLE", "--recipe", "mean", "--plot", "x.txt"), "x.txt"),
        (("predict-model", "--network", "lenet"), "no GPU is named"),
        (("predict-model", "--network", "lenet", "--gpu", "T4", "--batch", "2", "--sweep-batches"), "leave out the batch"),
        (("predict-model", "--network", "lenet", "--gpu", "T4", "--plot", "x.png"), "several --batch"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    table: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    said: str,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = pd.read_csv(table)
    tables = {"TABLE": points, "MODELLED": points.assign(labels="modelled"), "BROKEN": points.head(5).assign(network="broken")}
    monkeypatch.chdir(tmp_path)
    for name, one in tables.items():
        one.to_csv(f"{name}.csv", index=False)
    command, *rest = arguments
    assert said in refused(command, "occupancy", *(f"{word}.csv" if word in tables else word for word in rest))


def test_a_folder_that_cannot_be_written_is_told_before_the_fit(
    table: Path, tmp_path: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(*_: object) -> None:
        raise AssertionError("the fit began")

    monkeypatch.setattr("epochcast.analyzer.backends.occupancy.predictor.Predictor.fit", fit)
    (tmp_path / "taken").write_text("")
    said = refused("train", "occupancy", "--data", table, "--out", tmp_path / "taken")
    assert "holds no model of `epochcast train occupancy`; name a new folder" in said


def test_a_network_larger_than_memory_is_one_sentence(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "gpus.toml").write_text(
        '[[gpu]]\nname = "Tiny"\ncompute_capability = 8.0\nsm_count = 4\ncuda_cores = 256\nboost_clock = 1e9\n'
        "memory = 500_000_000\nmemory_bandwidth = 1e10\ntdp = 10\n"
    )
    asked = ("predict-model", "occupancy", "--network", "vgg11", "--gpu", "Tiny", "--gpus", tmp_path / "gpus.toml")
    assert "does not fit Tiny even at batch 1" in refused(*asked, "--sweep-batches")


def test_without_torch_what_needs_it_says_so(without_torch: Callable[..., Any]) -> None:
    """Where no graph is kept on disk and PyTorch is missing."""
    done = without_torch("predict-model", "occupancy", "--network", "lenet", "--gpu", "T4")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "PyTorch" in done.stderr and "pip install" in done.stderr


def test_a_real_network_from_its_name_to_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered: Callable[..., Any]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = ("predict-model", "occupancy", "--network", "lstm", "--gpu", "T4", "--hidden", "32", "--sequence", "4")
    answer = answered(*asked, "--batch", "8", "--batch", "2")
    assert answer["sizes"] == {"sequence": 4, "hidden": 32, "layers": 1} and answer["unknown_operators"] == {}
    assert [one["batch"] for one in answer["predictions"]] == [2, 8]
