"""``python -m lab.evaluate``: that each white box is evaluated, with sane figures, and that bad input is one sentence."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, KEYS, TIMES, known_metrics

FIGURES = {"mape", "median_ape", "rmse", "r2", "n", "coverage", "by"}


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Networks of four families at two batches, as fast as the paper's terms say."""
    known = known_metrics()
    chosen = (known["image_size"] == 128) & (known["block"] == "")
    known = known[chosen & known["family"].isin(["resnet", "regnet", "mobilenetv3", "squeezenet"])].groupby("family").head(4)
    points = pd.concat([known.assign(batch=batch) for batch in (1, 16)])
    work = points["batch"] * (points["flops"] + 20 * (points["conv_inputs"] + points["conv_outputs"])) / 1e12
    inference = work + 2e-4
    forward, backward, update = 1.1 * inference, 2 * inference, points["weights"] / 1e12 + 1e-5 * points["layers"]
    seconds = dict(zip(TIMES, (inference, forward, backward, update, forward + backward + update), strict=True))
    path = tmp_path_factory.mktemp("convmeter") / "points.csv"
    table = points.assign(device="RTX 3090", precision="fp32", devices=1, nodes=1, **seconds)
    table[[*KEYS, *TIMES, *COLUMNS]].to_csv(path, index=False)
    return path


def test_convmeter_beside_its_baselines(points: Path, tmp_path: Path, lab_answer: Callable[..., Any]) -> None:
    asked = ("--data", points, "--protocol", "architecture", "--phase", "forward", "--recipe", "paper")
    answer = lab_answer("evaluate", "convmeter", *asked, "--plot", tmp_path / "steps.svg")
    assert set(answer) >= FIGURES
    assert answer["mape"] < 0.1 < answer["baselines"]["flops"]["mape"]
    assert (tmp_path / "steps.svg").is_file()


def test_distributed_by_size_beside_its_baselines(runs: Path, tmp_path: Path, lab_answer: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    answer = lab_answer("evaluate", "distributed", "--data", runs, "--plot", tmp_path / "errors.svg")
    assert set(answer) >= FIGURES
    assert answer["n"] == 12 and answer["mape"] < answer["baselines"]["roofline"]["mape"]
    assert set(answer["baselines"]) == {"paper", "roofline", "neusight-style", "vtrain-style"}


def test_distributed_by_gpu(operators: Path, tmp_path: Path, lab_answer: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    (tmp_path / "end_to_end.csv").write_text(
        "model_name,seqlen,batch,device,mode,option,label_all_e2e_latency,neusight_all_e2e_latency\n"
        "bert_large,512,2,Tesla_T4,inf,,130,100\nbert_large,512,2,NoSuchGPU,inf,,10,100\n"
    )
    asked = ("--protocol", "gpu", "--data", tmp_path / "end_to_end.csv", "--operators", operators)
    answer = lab_answer("evaluate", "distributed", *asked)
    assert set(answer) >= FIGURES
    assert (answer["n"], answer["coverage"]) == (1, 0.5)
    assert answer["methods"]["neusight"]["mape"] == pytest.approx(100 * (1 - 100 / 130))


@pytest.mark.parametrize("label", ["sm_occupancy", "peak_memory"])
def test_occupancy_of_left_out_networks(measured_trainings: Path, lab_answer: Callable[..., Any], label: str) -> None:
    answer = lab_answer("evaluate", "occupancy", "--data", measured_trainings, "--label", label, "--folds", "3")
    assert set(answer) >= FIGURES
    assert answer["coverage"] == 1 and answer["mape"] < 20


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("nothing", "unknown command 'nothing'"),
        ("convmeter", "either --data"),
        ("convmeter --data missing.csv", "missing.csv"),
        ("distributed --data missing.csv", "missing.csv"),
        ("distributed --data a.csv --protocol gpu", "--operators PATH"),
        ("occupancy --data missing.csv", "no such file"),
        ("occupancy --train a.csv --test b.csv --folds 3", "--folds splits one table"),
    ],
)
def test_bad_input_is_one_sentence(lab: Callable[..., str], arguments: str, says: str) -> None:
    if arguments.startswith("distributed") and find_spec("torch") is None:
        pytest.skip("needs torch")
    assert says in lab("evaluate", *arguments.split(), status=2)
