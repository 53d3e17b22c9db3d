"""``predict-model convmeter`` and ``train convmeter`` on made-up devices whose times follow a rule: the answer is known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from epochcast.analyzer.backends.convmeter.known_metrics import known_metrics
from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, KINDS
from epochcast.analyzer.backends.convmeter.points import KEYS, TIMES
from epochcast.analyzer.cli import cli, main

NEW = "resnet50"  # never in the points
_PRICES = """cloud,instance,gpu,count,region,usd_per_hour,source,date
own,one,Tesla T4,1,any,1.00,bill,2026-01-01
own,four,Tesla T4,4,any,3.00,bill,2026-01-01
"""


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
    (folder / "prices.csv").write_text(_PRICES)
    for name, files in (("model", ["points.csv"]), ("two", ["points.csv", "other.csv"])):
        data = [option for file in files for option in ("--data", str(folder / file))]
        assert main(["train", "convmeter", *data, "--form", "layers", "--out", str(folder / name)]) == 0
    return folder


def ask(folder: Path, *arguments: str, model: str = "model") -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(invoke(folder, *arguments, "--json", model=model).output)
    return answer


def invoke(folder: Path, *arguments: str, model: str = "model") -> Result:
    own = ["predict-model", "convmeter", "--model", str(folder / model), *arguments]
    return CliRunner().invoke(cli, own, catch_exceptions=False)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    sentence = capsys.readouterr().err
    assert sentence.count("\n") == 1
    return sentence


def true_seconds(batch: int, devices: int, image_size: int = 224) -> dict[str, float]:
    table = known_metrics()
    row = table[(table["network"] == NEW) & (table["block"] == "") & (table["image_size"] == image_size)]
    return {name: float(one.iloc[0]) for name, one in rule(row.assign(batch=batch, devices=devices)).items()}


def test_a_network_that_was_never_measured(folder: Path) -> None:
    answer = ask(folder, "--network", NEW, "--batch", "16", "--dataset-size", "1000000", "--epochs", "3")
    assert (answer["network"], answer["device"], answer["precision"], answer["gpu"]) == (NEW, "Tesla T4", "fp32", "T4")
    assert answer["metrics"]["layers"] == 54
    (one,) = answer["predictions"]
    truth = true_seconds(16, 1)
    for phase in ("inference", "forward", "backward", "update", "step"):
        found = one["phases"][phase]
        assert found["seconds"] == pytest.approx(truth[f"{phase}_seconds"], rel=0.1)
        assert found["low"] <= found["seconds"] <= found["high"]
    step = one["phases"]["step"]["seconds"]
    assert one["images_per_second"]["training"]["value"] == pytest.approx(16 / step)
    assert one["epoch_seconds"] == pytest.approx(1e6 / 16 * step) and one["seconds"] == pytest.approx(3 * one["epoch_seconds"])
    assert answer["scaling"] == answer["batches"] == []
    assert answer["fitted"]["step"]["networks"] == points()["network"].nunique()


def test_batches_beyond_the_memory_are_predicted_and_marked(folder: Path) -> None:
    batches = [option for batch in (1, 32, 1024) for option in ("--batch", str(batch))]
    answer = ask(folder, "--network", NEW, *batches)
    assert [one["memory"]["fits"] for one in answer["predictions"]] == [True, True, False]  # 16 GB
    assert [one["batch"] for one in answer["predictions"]] == [1, 32, 1024]
    truth = np.array([batch / true_seconds(batch, 1)["step_seconds"] for batch in (1, 32, 1024)])
    found = np.array([one["images_per_second"]["training"]["value"] for one in answer["predictions"]])
    assert found == pytest.approx(truth, rel=0.1)
    enough = [1, 32, 1024][int(np.argmax(truth >= 0.95 * truth.max()))]
    assert answer["batches"] == [{"devices": 1, "large_enough": enough, "largest": 1024}]


def test_weak_scaling_follows_the_exchange_and_costs_whole_instances(folder: Path) -> None:
    devices = [option for count in (1, 2, 4, 8) for option in ("--devices", str(count))]
    answer = ask(
        folder, "--network", NEW, "--batch", "8", *devices, "--dataset-size", "50000", "--prices", str(folder / "prices.csv")
    )
    (scaling,) = answer["scaling"]
    rates = np.array([8 * count / true_seconds(8, count)["step_seconds"] for count in (1, 2, 4, 8)])
    assert scaling["mode"] == "weak" and scaling["speed_up"] == pytest.approx(rates / rates[0], rel=0.1)
    assert scaling["efficiency"] == pytest.approx(rates / rates[0] / [1, 2, 4, 8], rel=0.1)
    costs = [one["cost"] for one in answer["predictions"]]
    assert [(cost["instance"], cost["count"]) for cost in costs] == [("one", 1), ("four", 1), ("four", 1), ("four", 2)]
    first = answer["predictions"][0]
    assert costs[0]["usd_per_epoch"] == pytest.approx(first["epoch_seconds"] / 3600)
    assert any(note.startswith("devices 8 lies outside of what was measured") for note in answer["notes"])


def test_strong_scaling_shares_the_global_batch(folder: Path) -> None:
    answer = ask(
        folder, "--network", NEW, "--global-batch", "32", "--devices", "1", "--devices", "4", "--devices-per-node", "4"
    )
    assert [(one["batch"], one["devices"], one["nodes"]) for one in answer["predictions"]] == [(32, 1, 1), (8, 4, 1)]
    assert answer["scaling"][0]["mode"] == "strong" and answer["scaling"][0]["batch"] is None


def test_blocks_by_the_papers_names(folder: Path) -> None:
    answer = ask(folder, "--network", NEW, "--block", "Bottleneck4", "--batch", "8")
    block, whole = answer["blocks"]
    assert block["block"].startswith("layer2.") and whole["block"] == ""
    assert 0 < block["phases"]["inference"]["seconds"] < whole["phases"]["inference"]["seconds"] / 4


def test_all_blocks_of_an_own_network(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    (tmp_path / "own_convnet.py").write_text(
        "from torch import nn\n"
        "def tiny():\n"
        "    inner = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU())\n"
        "    return nn.Sequential(nn.Conv2d(3, 8, 3), inner, nn.Flatten(), nn.Linear(8 * 12 * 12, 4))\n"
        "def dense():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 10))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    answer = ask(folder, "--network", "own_convnet:dense", "--image-size", "16")
    assert any("no convolution" in note for note in answer["notes"])
    answer = ask(folder, "--network", "own_convnet:tiny", "--image-size", "16", "--blocks")
    assert [one["block"] for one in answer["blocks"]] == ["0", "1.0", "3", ""]  # what computes nothing is no block
    assert [one["metrics"]["layers"] for one in answer["blocks"]] == [1, 1, 1, 3]
    assert "the whole network" in invoke(folder, "--network", "own_convnet:tiny", "--image-size", "16", "--blocks").output
    assert any("no block was measured" in note for note in answer["notes"])


def test_the_answer_in_words(folder: Path) -> None:
    devices = ("--devices", "1", "--devices", "2", "--devices", "4")
    text = invoke(folder, "--network", NEW, *devices, "--dataset-size", "50000", "--prices", str(folder / "prices.csv")).output
    for part in (
        "resnet50 at 224 x 224 on Tesla T4, fp32",
        "weak scaling, batch 32 on each",
        "cost per epoch",
        "layers",
        "fits",
    ):
        assert part in text
    text = invoke(folder, "--network", NEW, "--dataset-size", "50000", "--epochs", "2").output
    for part in ("batch 32 on 1 device", "90 % interval", "all epochs", "GiB"):
        assert part in text


@pytest.mark.parametrize("sizes", [("--devices", "1", "--devices", "4"), ("--batch", "8", "--batch", "64")])
def test_the_plot(folder: Path, tmp_path: Path, sizes: tuple[str, ...]) -> None:
    invoke(folder, "--network", NEW, *sizes, "--plot", str(tmp_path / "scaling.png"))
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--device", "H100"], "the model was not fitted for H100; it has Tesla T4 at fp32"),
        (["--batch", "8", "--global-batch", "8"], "a batch is of each device"),
        (["--epochs", "2"], "epochs are given without the size of the data set"),
        (["--plot", "a.png"], "--plot draws throughput by devices or by batch"),
        (["--blocks", "--devices", "2"], "blocks are predicted for one batch on one device"),
        (["--global-batch", "10", "--devices", "4"], "a global batch of 10 cannot be shared equally by 4 devices"),
    ],
)
def test_what_cannot_be_asked(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str) -> None:
    assert sentence in refused(
        capsys, "predict-model", "convmeter", "--network", NEW, "--model", str(folder / "model"), *arguments
    )


def test_a_model_of_two_devices_asks_which(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["predict-model", "convmeter", "--network", NEW, "--model", str(folder / "two")]
    assert "choose a device and a precision" in refused(capsys, *own)
    assert "all points of my CPU at amp-bf16 are of one" in refused(capsys, *own, "--device", "my CPU", "--devices", "2")
    answer = ask(folder, "--network", NEW, "--precision", "amp-bf16", model="two")
    assert (answer["device"], answer["gpu"], answer["predictions"][0]["memory"]["capacity"]) == ("my CPU", None, None)


def test_the_papers_form_on_one_and_several_devices(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def model(name: str, rows: pd.DataFrame) -> str:
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
        data = ["--data", str(tmp_path / f"{name}.csv")]
        assert main(["train", "convmeter", *data, "--form", "paper", "--out", str(tmp_path / name)]) == 0
        return str(tmp_path / name)

    both = points().assign(inference_seconds=lambda rows: rows["inference_seconds"].where(rows["devices"] == 1))
    asked = ("--network", NEW, "--devices", "1", "--devices", "2")
    answer = ask(folder, *asked, model=model("both", both))
    first, second = (one["phases"] for one in answer["predictions"])
    assert set(first) == set(second) and first["inference"] == second["inference"]  # it exchanges nothing
    several = model("several", both[both["devices"] > 1])
    capsys.readouterr()
    assert "on 1 x Tesla T4 at fp32 cannot be told by paper" in refused(
        capsys, "predict-model", "convmeter", "--model", several, *asked
    )
    forward = model("forward", both.assign(**dict.fromkeys(set(TIMES) - {"forward_seconds"}, np.nan)))
    capsys.readouterr()
    assert "throughput cannot be told" in refused(capsys, "predict-model", "convmeter", "--model", forward, *asked)
    assert set(ask(folder, "--network", NEW, model=forward)["predictions"][0]["phases"]) == {"forward"}


_WITHOUT_TORCH = """
import sys
from importlib.abc import MetaPathFinder

sought = []

class NoTorch(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch":
            sought.append(name)
            raise ModuleNotFoundError("No module named 'torch'")

sys.meta_path.insert(0, NoTorch())

from epochcast.analyzer.cli import main

for arguments in ASKED:
    print("exit", main(arguments), "torch was sought" if sought else "", file=sys.stderr)
"""


def test_where_there_is_no_torch_known_networks_are_predicted_and_the_others_say_what_they_take(folder: Path) -> None:
    known = ["predict-model", "convmeter", "--network", NEW, "--model", str(folder / "model"), "--json"]
    others = [
        ["predict-model", "convmeter", "--network", "vgg16", "--model", str(folder / "model"), *more]
        for more in (["--image-size", "100"], ["--block", "ReLU0"], ["--blocks"])
    ]
    code = _WITHOUT_TORCH.replace("ASKED", repr([known, *others]))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["network"] == NEW
    first, *sentences = done.stderr.splitlines()
    assert first == "exit 0 " and len(sentences) == 2 * len(others), "one sentence each"
    for said, ended in zip(sentences[::2], sentences[1::2], strict=True):
        assert "takes PyTorch" in said and "pip install '.[torch,convnets]'" in said
        assert ended.startswith("exit 2 ")


def test_training_says_what_it_rests_on(folder: Path, tmp_path: Path) -> None:
    arguments = ["train", "convmeter", "--data", str(folder / "points.csv"), "--data", str(folder / "other.csv")]
    done = CliRunner().invoke(cli, [*arguments, "--form", "relative", "--out", str(tmp_path / "m"), "--json"])
    answer = json.loads(done.output)
    assert answer["rows"] == len(points()) + len(points(devices=(1,))) and answer["gpus"] == ["Tesla T4", "my CPU"]
    assert answer["seconds"] >= 0
    assert [(cell["device"], cell["precision"]) for cell in answer["cells"]] == [("Tesla T4", "fp32"), ("my CPU", "amp-bf16")]
    assert answer["cells"][0]["fitted"]["step"]["form"] == "relative"


def test_tuning_to_one_network(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = points()["network"].iloc[0]
    own = ["train", "convmeter", "--data", str(folder / "points.csv"), "--out", str(tmp_path / "m")]
    done = CliRunner().invoke(cli, [*own, "--network", name, "--form", "relative", "--json"], catch_exceptions=False)
    assert json.loads(done.output)["networks"] == 1
    assert f"did you mean {name}" in refused(capsys, *own, "--network", f"{name}x")
    points().query("network == @name").head(3).to_csv(tmp_path / "few.csv", index=False)
    few = ["train", "convmeter", "--data", str(tmp_path / "few.csv"), "--out", str(tmp_path / "m"), "--network", name]
    assert "tuning to it takes 6 points and 2 batch sizes" in refused(capsys, *few)


def test_nothing_to_learn_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points().head(2).to_csv(tmp_path / "two.csv", index=False)
    assert "too few" in refused(capsys, "train", "convmeter", "--data", str(tmp_path / "two.csv"), "--out", str(tmp_path / "m"))
    assert "few.csv" in refused(capsys, "train", "convmeter", "--data", "few.csv", "--out", str(tmp_path / "m"))


def test_a_model_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points().to_csv(tmp_path / "points.csv", index=False)
    train = ["train", "convmeter", "--data", str(tmp_path / "points.csv"), "--form", "relative", "--out"]
    assert "holds no model of `epochcast train convmeter`" in refused(capsys, *train, str(tmp_path / "points.csv"))
    assert "name another" in refused(capsys, *train, str(tmp_path / "points.csv" / "model"))
