"""``epochcast evaluate convmeter`` from the command line: figures, report, picture, and one sentence where it cannot."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.convmeter import evaluate
from epochcast.analyzer.backends.convmeter.forms import BASELINES, FORMS
from epochcast.analyzer.backends.convmeter.known_metrics import known_metrics
from epochcast.analyzer.backends.convmeter.metrics import COLUMNS
from epochcast.analyzer.backends.convmeter.points import KEYS, TIMES


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
    """Next to the requested form; the expensive forms take seconds."""
    monkeypatch.setattr(evaluate, "_RECIPES", ("relative", "paper", "flops"))


@pytest.mark.usefixtures("few_recipes")
def test_the_report_and_the_picture(table: Path, tmp_path: Path, printed: Callable[..., str]) -> None:
    picture = tmp_path / "steps.png"
    asked = ("--data", table, "--recipe", "paper", "--phase", "inference", "--plot", picture)
    text = printed("evaluate", "convmeter", *asked)
    assert text.startswith("family: ") and "inference time" in text
    for title in ("recipe", "batch", "family", "network", "block"):
        assert f"\n{title} " in text, title
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_all_recipes_beside_each_other(table: Path, answered: Callable[..., Any]) -> None:
    asked = ("--data", table, "--recipe", "all", "--phase", "forward", "--protocol", "architecture")
    answers = answered("evaluate", "convmeter", *asked)
    assert [one["recipe"] for one in answers] == [*FORMS, *BASELINES]
    assert len({one["n"] for one in answers}) == 1, "the same rows"
    mape = {one["recipe"]: one["mape"] for one in answers}
    assert mape["paper"] < 0.1 < mape["flops"]


def test_a_split_learns_from_one_table_and_names_it(table: Path, tmp_path: Path, answered: Callable[..., Any]) -> None:
    points = pd.read_csv(table, keep_default_na=False)
    paths = []
    for name, of in (("train", points[points["family"] != "resnet"]), ("test", points[points["family"] == "resnet"])):
        of.to_csv(tmp_path / f"{name}.csv", index=False)
        paths += [f"--{name}", str(tmp_path / f"{name}.csv")]
    answer = answered("evaluate", "convmeter", *paths, "--recipe", "relative", "--phase", "inference")
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
        (("--data", "TABLE", "--families", "nowhere.csv"), "nowhere.csv"),
        (("--data", "TABLE", "--plot", "steps.txt"), "steps.txt"),
        (("--data", "ONE", "--protocol", "model"), "one network"),
        (("--data", "UNTIMED"), "no point has a measured phase"),
    ],
)
def test_what_cannot_be_evaluated_is_one_sentence(
    table: Path, tmp_path: Path, arguments: tuple[str, ...], said: str, refused: Callable[..., str]
) -> None:
    points = pd.read_csv(table, keep_default_na=False)
    points[points["network"] == "resnet18"].to_csv(tmp_path / "one.csv", index=False)
    points.assign(**dict.fromkeys(TIMES, np.nan)).to_csv(tmp_path / "untimed.csv", index=False)
    paths = {"TABLE": table} | {name.upper(): tmp_path / f"{name}.csv" for name in ("one", "untimed")}
    assert said in refused("evaluate", "convmeter", "--recipe", "flops", *(paths.get(one, one) for one in arguments))


def test_the_command_of_the_issue_needs_no_torch(table: Path, without_torch: Callable[..., Any]) -> None:
    done = without_torch("evaluate", "convmeter", "--data", table, "--recipe", "flops", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["coverage"] == 1
