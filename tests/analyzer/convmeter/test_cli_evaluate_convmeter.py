"""``epochcast evaluate convmeter`` from the command line: figures, report, picture, and one sentence where it cannot."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.convmeter.forms import BASELINES, FORMS
from epochcast.analyzer.backends.convmeter.known_metrics import known_metrics
from epochcast.analyzer.backends.convmeter.metrics import COLUMNS
from epochcast.analyzer.backends.convmeter.points import KEYS, TIMES
from epochcast.analyzer.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Networks of four families, and the blocks of one, at two batches, as fast as the paper's terms say."""
    known = known_metrics()
    known = known[(known["image_size"] == 128) & known["family"].isin(["resnet", "regnet", "mobilenetv3", "squeezenet"])]
    blocks = known[(known["block"] != "") & (known["network"] == "resnet18")]
    known = pd.concat([known[known["block"] == ""].groupby("family").head(4), blocks])
    points = pd.concat([known.assign(batch=batch) for batch in (1, 16)])
    work = points["batch"] * (points["flops"] + 20 * (points["conv_inputs"] + points["conv_outputs"])) / 1e12
    inference = work + 2e-4
    forward, backward, update = 1.1 * inference, 2 * inference, points["weights"] / 1e12 + 1e-5 * points["layers"]
    seconds = dict(zip(TIMES, (inference, forward, backward, update, forward + backward + update), strict=True))
    path = tmp_path_factory.mktemp("convmeter") / "points.csv"
    points.assign(device="RTX 3090", precision="fp32", devices=1, nodes=1, **seconds)[[*KEYS, *TIMES, *COLUMNS]].to_csv(
        path, index=False
    )
    return path


@pytest.fixture
def few_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the one asked for; the dear ones take seconds."""
    module = import_module("epochcast.analyzer.cli.evaluate.convmeter")
    monkeypatch.setattr(module, "_RECIPES", ("relative", "paper", "flops"))


def _json(capsys: Capture, *arguments: str) -> Any:
    assert main(["evaluate", "convmeter", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_figures_of_the_contract(table: Path, capsys: Capture) -> None:
    answer = _json(capsys, "--data", str(table), "--recipe", "relative")
    assert {"mape", "median_ape", "rmse", "r2", "nrmse", "n", "coverage", "by", "spread", "baselines"} <= set(answer)
    assert (answer["recipe"], answer["protocol"], answer["phase"], answer["coverage"]) == ("relative", "family", "step", 1)
    assert answer["mape"] < 0.1 and answer["nrmse"] < 0.001 and answer["r2"] > 0.999, "the times are made of its terms"
    assert set(answer["by"]["phase"]) == {"inference", "forward", "backward", "update", "step"}
    assert answer["by"]["phase"]["step"]["mape"] == answer["mape"]
    assert set(answer["by"]["device"]) == {"RTX 3090 fp32"} and set(answer["by"]["batch"]) == {"1", "16"}
    assert sum(one["n"] for one in answer["by"]["network"].values()) == answer["n"]
    assert "resnet18 layer4.1" in answer["by"]["block"], "blocks are told apart from networks"
    points = pd.read_csv(table, keep_default_na=False)
    assert answer["n"] == (points["block"] == "").sum()
    assert (
        set(answer["baselines"]) == {*FORMS, *BASELINES} - {"relative", "pooled", "corrected"}
        and answer["baselines"]["flops"]["n"] == answer["n"]
    )


@pytest.mark.usefixtures("few_recipes")
def test_the_report_and_the_picture(table: Path, tmp_path: Path, capsys: Capture) -> None:
    picture = tmp_path / "steps.png"
    asked = ("--data", str(table), "--recipe", "paper", "--phase", "inference", "--plot", str(picture))
    assert main(["evaluate", "convmeter", *asked]) == 0
    text = capsys.readouterr().out
    assert text.startswith("family: ") and "inference time" in text
    for title in ("recipe", "batch", "family", "network", "block"):
        assert f"\n{title} " in text, title
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_all_recipes_beside_each_other(table: Path, capsys: Capture) -> None:
    answers = _json(capsys, "--data", str(table), "--recipe", "all", "--phase", "forward", "--protocol", "architecture")
    assert [one["recipe"] for one in answers] == [*FORMS, *BASELINES]
    assert len({one["n"] for one in answers}) == 1, "the same rows"
    mape = {one["recipe"]: one["mape"] for one in answers}
    assert mape["paper"] < 0.1 < mape["flops"]


def test_a_split_learns_from_one_table_and_names_it(table: Path, tmp_path: Path, capsys: Capture) -> None:
    points = pd.read_csv(table, keep_default_na=False)
    paths = []
    for name, of in (("train", points[points["family"] != "resnet"]), ("test", points[points["family"] == "resnet"])):
        of.to_csv(tmp_path / f"{name}.csv", index=False)
        paths += [f"--{name}", str(tmp_path / f"{name}.csv")]
    answer = _json(capsys, *paths, "--recipe", "relative", "--phase", "inference")
    assert answer["protocol"] is None and answer["spread"] is None and list(answer["by"]["family"]) == ["resnet"]
    assert answer["settings"]["train_rows"] == (points["family"] != "resnet").sum() and answer["mape"] < 0.1


@pytest.mark.usefixtures("few_recipes")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "either --data"),
        (("--data", "a.csv", "--train", "b.csv", "--test", "c.csv"), "either --data"),
        (("--train", "b.csv"), "both --train"),
        (("--train", "b.csv", "--test", "c.csv", "--protocol", "model"), "--protocol"),
        (("--data", "nowhere.csv"), "nowhere.csv"),
        (("--data", "TABLE", "--families", "nowhere.csv"), "nowhere.csv"),
        (("--data", "TABLE", "--plot", "steps.txt"), "steps.txt"),
        (("--data", "ONE", "--protocol", "model"), "one network"),
        (("--data", "INFERENCE", "--phase", "step"), "step time was measured of none"),
        (("--data", "UNTIMED"), "no point has a measured phase"),
    ],
)
def test_what_cannot_be_evaluated_is_one_sentence(
    table: Path, tmp_path: Path, arguments: tuple[str, ...], said: str, capsys: Capture
) -> None:
    points = pd.read_csv(table, keep_default_na=False)
    points[points["network"] == "resnet18"].to_csv(tmp_path / "one.csv", index=False)
    points.assign(**dict.fromkeys(TIMES[1:], np.nan)).to_csv(tmp_path / "inference.csv", index=False)
    points.assign(**dict.fromkeys(TIMES, np.nan)).to_csv(tmp_path / "untimed.csv", index=False)
    paths = {"TABLE": str(table)} | {name.upper(): str(tmp_path / f"{name}.csv") for name in ("one", "inference", "untimed")}
    assert main(["evaluate", "convmeter", "--recipe", "flops", *(paths.get(one, one) for one in arguments)]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and not captured.out


def test_the_command_of_the_issue_needs_no_torch(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "convnets"
    name = "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv"
    families = pd.read_csv(folder / "timm_families.csv").set_index("model")["family"]
    rows = pd.read_csv(folder / name)
    rows[rows["model"].map(families).isin(["vgg", "densenet", "dla", "vision_transformer"])].to_csv(
        tmp_path / name, index=False
    )
    asked = ["--data", f"{tmp_path / name}", "--features", f"{folder}/timm_layer_features.csv.gz"]
    asked += ["--families", f"{folder}/timm_families.csv", "--protocol", "family", "--json"]
    code = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name.split('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError(f'no {name} here')\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "from epochcast.analyzer.cli import main\n"
        f"sys.exit(main({['evaluate', 'convmeter', *asked]!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert set(answer["by"]["family"]) == {"vgg", "densenet", "dla"} and answer["settings"]["left_out"]["no ConvNet"] > 100
    assert (answer["recipe"], answer["coverage"]) == ("default", 1) and set(answer["baselines"]) > {
        "paper",
        "flops",
        "boosting",
    }
