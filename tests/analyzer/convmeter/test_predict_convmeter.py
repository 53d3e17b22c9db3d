"""``predict-model convmeter`` and ``fit convmeter`` on made-up devices whose times follow a rule: the answer is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, KEYS, KINDS, TIMES, known_metrics
from epochcast.analyzer.cli import main

NEW = "resnet50"  # never in the points


def rule(rows: pd.DataFrame) -> dict[str, Any]:
    """Seconds of each phase: FLOPs, traffic and operators at rates of their own, an exchange that grows with the devices."""
    batch, traffic = rows["batch"], sum(rows[f"{kind}_traffic"] for kind in KINDS)
    inference = 2e-13 * batch * rows["flops"] + 1e-11 * batch * traffic + 1e-5 * rows["operators"]
    forward, backward = 1.1 * inference, 2.2 * inference
    update = 5e-11 * rows["weights"] + 2e-6 * rows["parameter_tensors"]
    exchange = 4e-10 * rows["weights"] * np.log2(rows["devices"])
    step = forward + backward + update + exchange
    return dict(zip(TIMES, (inference, forward, backward + exchange, update, step), strict=True))


def points(device: str = "Tesla T4", precision: str = "fp32", devices: tuple[int, ...] = (1, 2, 4)) -> pd.DataFrame:
    """All networks of the shipped table but one, at two sizes, three batches and the numbers of devices."""
    table = known_metrics()
    networks = sorted(set(table["network"]) - {NEW})[::6]
    table = table[(table["block"] == "") & table["image_size"].isin([128, 224]) & table["network"].isin(networks)]
    grid = pd.DataFrame([(batch, count) for batch in (1, 8, 32) for count in devices], columns=["batch", "devices"])
    rows = table.merge(grid, how="cross").assign(device=device, precision=precision, nodes=1)
    return rows.assign(**rule(rows))[[*KEYS, *TIMES, *COLUMNS]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Points and a model of one device, and one of two."""
    folder = tmp_path_factory.mktemp("convmeter")
    points().to_csv(folder / "points.csv", index=False)
    points("my CPU", "amp-bf16", (1,)).to_csv(folder / "other.csv", index=False)
    for name, files in (("model", ["points.csv"]), ("two", ["points.csv", "other.csv"])):
        data = [option for file in files for option in ("--data", str(folder / file))]
        assert main(["fit", "convmeter", *data, "--out", str(folder / name)]) == 0
    return folder


@pytest.fixture
def ask(folder: Path, answered: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, model="model": answered("predict-model", "convmeter", "--model", folder / model, *arguments)


@pytest.fixture
def text(folder: Path, printed: Callable[..., str]) -> Callable[..., str]:
    return lambda *arguments: printed("predict-model", "convmeter", "--model", folder / "model", *arguments)


def true_seconds(batch: int, devices: int, image_size: int = 224) -> dict[str, float]:
    table = known_metrics()
    row = table[(table["network"] == NEW) & (table["block"] == "") & (table["image_size"] == image_size)]
    return {name: float(one.iloc[0]) for name, one in rule(row.assign(batch=batch, devices=devices)).items()}


def test_a_network_that_was_never_measured(ask: Callable[..., Any]) -> None:
    answer = ask("--network", NEW, "--batch", "16", "--dataset-size", "1000000")
    assert (answer["network"], answer["device"], answer["precision"], answer["gpu"]) == (NEW, "Tesla T4", "fp32", "T4")
    assert answer["metrics"]["layers"] == 54
    (one,) = answer["predictions"]
    truth = true_seconds(16, 1)
    for phase in ("inference", "forward", "backward", "update", "step"):
        found = one["phases"][phase]
        assert found["value"] == pytest.approx(truth[f"{phase}_seconds"], rel=0.1)
        assert found["low"] <= found["value"] <= found["high"]
    step = one["phases"]["step"]["value"]
    assert one["images_per_second"]["training"]["value"] == pytest.approx(16 / step)
    assert one["epoch_seconds"] == pytest.approx(1e6 / 16 * step)
    assert (answer["turning_points"], answer["large_enough"], one["speed_up"]) == ({}, {}, None)
    assert answer["fitted"]["forward"]["networks"] == points()["network"].nunique()


def test_batches_beyond_the_memory_are_predicted_and_marked(ask: Callable[..., Any]) -> None:
    batches = [option for batch in (1, 32, 1024) for option in ("--batch", str(batch))]
    answer = ask("--network", NEW, *batches)
    assert [one["memory"]["fits"] for one in answer["predictions"]] == [True, True, False]  # 16 GB
    assert [one["batch"] for one in answer["predictions"]] == [1, 32, 1024]
    truth = np.array([batch / true_seconds(batch, 1)["step_seconds"] for batch in (1, 32, 1024)])
    found = np.array([one["images_per_second"]["training"]["value"] for one in answer["predictions"]])
    assert found == pytest.approx(truth, rel=0.1)
    enough = [1, 32, 1024][int(np.argmax(truth >= 0.95 * truth.max()))]
    assert answer["large_enough"] == {"1": enough}


def test_the_answer_in_words(folder: Path, text: Callable[..., str]) -> None:
    asked = ("--network", NEW, "--dataset-size", "50000")
    said = text(*asked, "--devices", "1", "--devices", "2", "--devices", "4")
    for part in (
        "resnet50 at 224 x 224 on Tesla T4, fp32 (channels first)\nassumed: batch 32, the largest usual",
        "weak scaling, batch 32 on each",
        "cost per epoch",
        "100 %",
        "fits",
    ):
        assert part in said
    said = text(*asked)
    for part in ("forward", "update", "90 % interval", "epoch", "GiB"):
        assert part in said


@pytest.mark.parametrize("sizes", [("--devices", "1", "--devices", "4"), ("--batch", "8", "--batch", "64")])
def test_the_plot(text: Callable[..., str], tmp_path: Path, sizes: tuple[str, ...]) -> None:
    text("--network", NEW, *sizes, "--plot", tmp_path / "scaling.png")
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--device", "H100", "--precision", "amp-bf16"], "not fitted for H100 at amp-bf16; it has Tesla T4 at fp32"),
        (["--device", "H100", "--recipe", "paper"], "not fitted for H100 by the recipe paper"),
        (["--device", "my toaster"], "not fitted for my toaster"),
        (["--batch", "8", "--global-batch", "8"], "a batch is per device"),
        (["--plot", "a.png"], "--plot draws throughput by devices or by batch"),
        (["--global-batch", "10", "--devices", "4"], "a global batch of 10 cannot be split equally over 4 devices"),
    ],
)
def test_what_cannot_be_asked(folder: Path, refused: Callable[..., str], arguments: list[str], sentence: str) -> None:
    assert sentence in refused("predict-model", "convmeter", "--network", NEW, "--model", folder / "model", *arguments)


def test_a_model_of_two_devices_asks_which(folder: Path, ask: Callable[..., Any], refused: Callable[..., str]) -> None:
    own = ("predict-model", "convmeter", "--network", NEW, "--model", folder / "two")
    assert "a precision: Tesla T4 at fp32; my CPU at amp-bf16 (from which all other GPUs of the catalogue" in refused(*own)
    assert "steps on several my CPU cannot be predicted" in refused(*own, "--device", "my CPU", "--devices", "2")
    answer = ask("--network", NEW, "--precision", "amp-bf16", model="two")
    assert (answer["device"], answer["gpu"], answer["predictions"][0]["memory"]["capacity"]) == ("my CPU", None, None)


def test_several_gpus_and_nodes_add_an_exchange(ask: Callable[..., Any]) -> None:
    asked = ("--network", NEW, "--batch", "16", "--devices", "1", "--devices", "4", "--devices", "8")
    answer = ask(*asked, "--devices-per-node", "4")
    one, four, eight = answer["predictions"]
    assert (four["nodes"], eight["nodes"]) == (1, 2)
    for phase in ("inference", "forward", "backward"):
        assert one["phases"][phase] == four["phases"][phase]
    more = [step["phases"]["update"]["value"] - one["phases"]["update"]["value"] for step in (four, eight)]
    assert 0 < more[0] < more[1]
    for step, added in zip((four, eight), more, strict=True):
        assert step["phases"]["step"]["value"] == pytest.approx(one["phases"]["step"]["value"] + added)
    width, wider = (step["phases"]["step"]["high"] / step["phases"]["step"]["value"] for step in (four, eight))
    assert width < wider
    assert one["speed_up"] == 1 < four["speed_up"] < 4 and four["efficiency"] == pytest.approx(four["speed_up"] / 4)
    assert list(answer["turning_points"]) == ["16"]
    assert any("nodes are linked by" in each for each in answer["assumed"])


def test_a_gpu_that_was_not_measured_is_moved_from_one_that_was(ask: Callable[..., Any]) -> None:
    here, there = (ask("--network", NEW, "--device", gpu, "--batch", "16") for gpu in ("T4", "H100 PCIe"))
    for phase in ("inference", "step"):
        slow, fast = (answer["predictions"][0]["phases"][phase] for answer in (here, there))
        assert fast["value"] < 0.5 * slow["value"]
        assert fast["high"] / fast["low"] > slow["high"] / slow["low"]  # both widths
    assert (there["device"], there["gpu"], there["precision"]) == ("H100 PCIe", "H100 PCIe", "fp32")
    assert any("was not measured at fp32; times on Tesla T4 x 0." in each for each in there["assumed"])
    assert not any("measured at" in each for each in here["assumed"])


def test_the_papers_recipe_on_one_and_several_devices(
    ask: Callable[..., Any], printed: Callable[..., str], refused: Callable[..., str], tmp_path: Path
) -> None:
    def model(name: str, rows: pd.DataFrame) -> str:
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
        printed("fit", "convmeter", "--data", tmp_path / f"{name}.csv", "--out", tmp_path / name)
        return str(tmp_path / name)

    both = points().assign(inference_seconds=lambda rows: rows["inference_seconds"].where(rows["devices"] == 1))
    asked = ("--network", NEW, "--recipe", "paper")
    answer = ask(*asked, "--devices", "1", "--devices", "2", model=model("both", both))
    first, second = (one["phases"] for one in answer["predictions"])
    assert set(first) == set(second) and first["inference"] == second["inference"]  # it exchanges nothing
    several = model("several", both[both["devices"] > 1])
    assert "on 1 x Tesla T4 at fp32 cannot be predicted by the recipe paper" in refused(
        "predict-model", "convmeter", "--model", several, *asked
    )
    forward = model("forward", both.assign(**dict.fromkeys(set(TIMES) - {"forward_seconds"}, np.nan)))
    batches = ("--batch", "1", "--batch", "2")
    assert "throughput cannot be predicted" in refused("predict-model", "convmeter", "--model", forward, *asked, *batches)
    assert set(ask(*asked, model=forward)["predictions"][0]["phases"]) == {"forward"}


def test_where_there_is_no_torch_networks_of_no_table_say_what_they_take(
    folder: Path, without_torch: Callable[..., Any]
) -> None:
    done = without_torch("predict-model", "convmeter", "--network", "vgg16", "--model", folder / "model", "--image-size", "100")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "needs PyTorch" in done.stderr and "pip install '.[torch,convnets]'" in done.stderr


def test_a_phase_with_too_few_points_is_noted_beside_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = points().head(60)
    rows.loc[2:, TIMES[1:]] = np.nan
    rows.to_csv(tmp_path / "points.csv", index=False)
    assert main(["fit", "convmeter", "--data", str(tmp_path / "points.csv"), "--out", str(tmp_path / "m"), "--json"]) == 0
    printed = capsys.readouterr()
    assert set(json.loads(printed.out)["cells"][0]["fits"]) == {"inference"}
    assert "not fitted: Tesla T4 at fp32: 1 points of the forward are too few" in printed.err


def test_nothing_to_learn_from_and_nowhere_to_write(tmp_path: Path, refused: Callable[..., str]) -> None:
    points().head(2).assign(**dict.fromkeys(TIMES[1:], np.nan)).to_csv(tmp_path / "two.csv", index=False)
    points().head(60).to_csv(tmp_path / "points.csv", index=False)
    train = ("fit", "convmeter", "--data")
    assert "too few" in refused(*train, tmp_path / "two.csv", "--out", tmp_path / "m")
    here = tmp_path / "points.csv"
    assert "has no model of `epochcast fit convmeter`" in refused(*train, here, "--out", here)
    assert "name another" in refused(*train, here, "--out", here / "model")
