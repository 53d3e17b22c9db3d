"""``epochcast predict-model``, ``train``, ``calibrate`` and ``evaluate distributed`` from the command line."""

import importlib.util
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.fitted_model import FittedModel
from epochcast.analyzer.backends.distributed.graphs import ModelGraphs
from epochcast.analyzer.backends.distributed.job import Job
from epochcast.analyzer.backends.distributed.predictor import Predictor
from epochcast.analyzer.cli import main
from epochcast.regressor import load_catalog

pytestmark = pytest.mark.usefixtures("shared_graphs")

Capture = pytest.CaptureFixture[str]

MODEL = "gpt:hidden=128,layers=4,heads=4,vocab=512,positions=128"
LARGER = "gpt:hidden=256,layers=4,heads=4,vocab=512,positions=128"
A100 = "A100 SXM4 80GB"
_ONE = ("--model", MODEL, "--gpu", A100)


def _ask(*arguments: str) -> int:
    return main(["predict-model", "distributed", *arguments])


def _answer(capsys: Capture, *arguments: str, code: int = 0) -> Any:
    assert _ask(*arguments, "--json") == code
    return json.loads(capsys.readouterr().out)


def test_a_link_of_ones_own_is_used(capsys: Capture, tmp_path: Path) -> None:
    link = '[[link]]\nname = "mine"\nkind = "ethernet"\nbandwidth = {}\nlatency = 1e-5\nper = "node"\nsource = "measured"\n'
    seconds = []
    for bandwidth in (1e9, 1e10):
        (tmp_path / "links.toml").write_text(link.format(bandwidth))
        named = ("--links", str(tmp_path / "links.toml"), "--inter", "mine")
        seconds.append(_answer(capsys, *_ONE, "--dp", "16", *named)["parts"]["data_parallel"])
    assert 5 < seconds[0] / seconds[1] < 10


def test_one_job_adds_up(capsys: Capture, tmp_path: Path) -> None:
    trace = tmp_path / "iteration.json"
    spread = ("--dp", "2", "--tp", "2", "--pp", "2", "--micro-batch", "2", "--global-batch", "32", "--precision", "fp16")
    answer = _answer(capsys, *_ONE, *spread, "--iterations", "1000", "--timeline", str(trace))
    parts = dict(answer["parts"])
    seconds = sum(parts.pop("compute").values()) + sum(parts.values())
    assert answer["seconds"] == pytest.approx(seconds)
    assert answer["samples_per_second"] == pytest.approx(32 / seconds)
    assert answer["tokens_per_second"] == pytest.approx(32 * 128 / seconds), "the model has 128 positions"
    assert answer["total_seconds"] == pytest.approx(1000 * seconds)
    peak = load_catalog()[A100].fp16_tensor_flops or 0
    assert answer["mfu"] == pytest.approx(answer["model_flops"] / (seconds * 8 * peak))
    cost = answer["cost"]
    assert cost["gpu"] == A100 and cost["count"] * cost["gpus_each"] >= 8
    assert cost["usd_per_iteration"] == pytest.approx(cost["usd_per_hour"] * seconds / 3600)
    assert cost["usd"] == pytest.approx(1000 * cost["usd_per_iteration"])
    memory = answer["memory"]
    assert memory["total"] == pytest.approx(sum(memory[part] for part in ("weights", "gradients", "optimizer", "activations")))
    assert answer["fits"] and answer["job"]["micro_batches"] == 8
    events = json.loads(trace.read_text())["traceEvents"]
    assert max(event["ts"] + event["dur"] for event in events if event["ph"] == "X") / 1e6 == pytest.approx(seconds, rel=0.05)


def test_the_text_has_all_parts(capsys: Capture, tmp_path: Path) -> None:
    assert _ask(*_ONE, "--dp", "16", "--global-batch", "32", "--iterations", "10") == 0
    text = capsys.readouterr().out
    for said in (
        "per iteration",
        "tokens/s",
        "matmul",
        "optimizer step",
        "data-parallel",
        "fits: each GPU",
        "$",
        "assumed: ",
    ):
        assert said in text
    prices = tmp_path / "prices.csv"
    prices.write_text("cloud,instance,gpu,count,region,usd_per_hour,source,date\nx,t4,T4,1,any,1,here,2026-01-01\n")
    assert _ask(*_ONE, "--prices", str(prices)) == 0
    assert f"no on-demand price of a {A100} is known" in capsys.readouterr().out


def test_out_of_memory_is_an_answer_and_said_first(capsys: Capture) -> None:
    job = ("--model", "gpt:hidden=4096,layers=32,heads=32,vocab=512,positions=128", "--gpu", "T4", "--precision", "fp16")
    answer = _answer(capsys, *job)
    assert answer["fits"] is False and answer["seconds"] > 0
    assert _ask(*job) == 0
    assert capsys.readouterr().out.startswith("out of memory: each GPU needs")


_BAD = [
    (("--precision", "fp8"), "unknown precision 'fp8'"),
    (("--precision", "fp16", "--precision", "fp32"), "several are for --compare and --search"),
    (("--gpu", "T4"), "several are for --search"),
    (("--tp", "3"), "does not divide over 3 tensor ranks"),
    (("--dp", "3", "--global-batch", "4"), "does not divide into 3 data ranks"),
    (("--pp", "8"), "4 layers cannot fill 8 pipeline ranks"),
    (("--pp", "2", "--layers-per-stage", "1,x"), "'1,x'; give whole numbers"),
    (("--pp", "2", "--layers-per-stage", "1,2"), "sum to 3; give 4 in all"),
    (("--intra", "string"), "unknown link 'string'"),
    (("--operators", "table"), "--corpus PATH"),
    (("--calibration", "/nowhere"), "epochcast train distributed"),
    (("--tensor-plan", "/nowhere"), "cannot read the tensor plan"),
    (("--recipe", "seed", "--timeline", "x.json"), "not of seed"),
    (("--budget", "5"), "--budget limits a --search"),
    (("--plot", "x.png"), "belong to --compare"),
    (("--search", "--compare"), "ask for one of them"),
    (("--search",), "--gpus-total N"),
    (("--search", "--gpus-total", "4"), "give --global-batch N"),
    (("--search", "--budget", "5", "--global-batch", "8"), "by --iterations N"),
    (("--compare", "--strategies", "1,2", "--global-batch", "8"), "such as 4,2,1"),
    (("--compare", "--global-batch", "8"), "--strategies 'D,T,P"),
]


@pytest.mark.parametrize(("options", "said"), _BAD)
def test_bad_input_is_one_sentence(options: tuple[str, ...], said: str, capsys: Capture) -> None:
    assert _ask(*_ONE, *options) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_mixed_precision_is_the_default_as_the_gpu_has_it(capsys: Capture) -> None:
    for gpu, precision in ((A100, "amp-bf16"), ("T4", "amp-fp16"), ("M60", "fp32")):
        assert _answer(capsys, "--model", MODEL, "--gpu", gpu)["job"]["precision"] == precision


def test_a_gpu_without_the_precision_names_those_it_has(capsys: Capture) -> None:
    assert _ask("--model", MODEL, "--gpu", "T4", "--precision", "amp-bf16") == 2
    assert "train in fp32 or fp16" in capsys.readouterr().err


def test_without_torch_the_extra_is_named(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else real(name, *rest))
    assert _ask(*_ONE) == 2
    assert "'.[torch]'" in capsys.readouterr().err


def test_a_search_ranks_and_exits_1_where_nothing_fits(capsys: Capture) -> None:
    space = ("--search", "--gpus-total", "4", "--global-batch", "16")
    answer = _answer(capsys, *_ONE, *space, "--precision", "fp16", "--top", "3")
    seconds = [one["seconds"] for one in answer["configurations"]]
    assert len(seconds) == 3 and seconds == sorted(seconds) and answer["fitting"] > 3
    best = answer["configurations"][0]["job"]
    same = ("--dp", best["data"], "--tp", best["tensor"], "--pp", best["pipeline"], "--micro-batch", best["micro_batch"])
    same += ("--zero", best["zero"], "--recomputation", best["recomputation"], "--global-batch", 16, "--precision", "fp16")
    assert _answer(capsys, *_ONE, *map(str, same))["seconds"] == pytest.approx(seconds[0])
    assert _ask(*_ONE, *space, "--precision", "fp16") == 0
    assert "micro-batch  precision" in capsys.readouterr().out
    assert _ask("--model", "GPT-3-6.7B", "--gpu", "T4", "--precision", "fp16", "--tp", "1", "--pp", "1", *space) == 1
    assert "fits into memory; take more GPUs" in capsys.readouterr().err


def test_a_budget_keeps_what_it_pays_for(capsys: Capture) -> None:
    search = (*_ONE, "--gpu", "T4", "--search", "--gpus-total", "1", "--gpus-total", "2", "--global-batch", "16")
    search += ("--precision", "fp16", "--micro-batch", "2", "--zero", "0", "--top", "1000", "--iterations", "100")
    everything = _answer(capsys, *search)
    assert everything["ranked_by"] == "cost"
    costs = [one["cost"]["usd"] for one in everything["configurations"]]
    assert costs == sorted(costs) and len({one["gpu"] for one in everything["configurations"]}) == 2
    middle = sum(costs[len(costs) // 2 :][:2]) / 2
    within = _answer(capsys, *search, "--budget", str(middle))
    assert within["ranked_by"] == "time"
    assert {one["cost"]["usd"] for one in within["configurations"]} == {cost for cost in costs if cost <= middle}
    assert _ask(*search, "--budget", str(costs[0] / 2)) == 1
    assert "raise the budget" in capsys.readouterr().err


def test_precisions_and_strategies_beside_each_other(capsys: Capture, tmp_path: Path) -> None:
    compare = ("--model", "gpt:hidden=4096,layers=8,heads=32,vocab=512,positions=128", "--gpu", "T4", "--compare")
    compare += ("--precision", "fp32", "--precision", "fp16", "--global-batch", "4", "--plot", str(tmp_path / "figure.png"))
    answer = _answer(capsys, *compare, "--strategies", "2,1,1 1,2,1 1,1,2 1,3,1")
    rows = {
        (tuple(row["job"][name] for name in ("data", "tensor", "pipeline")), row["job"]["precision"]): row
        for row in answer["rows"]
    }
    assert len(rows) == 6 and {precision for _, precision in rows} == {"fp32", "fp16"}
    assert not rows[(2, 1, 1), "fp32"]["fits"] and rows[(1, 1, 2), "fp16"]["fits"]
    assert rows[(1, 2, 1), "fp16"]["seconds"] < rows[(1, 2, 1), "fp32"]["seconds"]
    assert [one["tensor"] for one in answer["refused"]] == [3]
    assert (tmp_path / "figure.png").stat().st_size > 1000
    assert _ask(*compare, "--gpus-total", "2") == 0
    text = capsys.readouterr().out
    assert "OOM" in text and "(1, 2, 1)" in text


@pytest.fixture(scope="module")
def tables(shared_graphs: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Runs of two models "measured" under coefficients that are not the believed ones: to train on, and to test on."""
    truth = replace(FittedModel.load().coefficients, bandwidth=0.5, launch=1.2e-5, node_link=0.6, network=0.5)
    gpu, rows = load_catalog()[A100], []
    for model in (MODEL, LARGER):
        predictor = Predictor(ModelGraphs.of(model), coefficients=truth)
        for number, (data, tensor, pipeline) in enumerate(((8, 1, 1), (8, 2, 1), (2, 2, 2), (4, 2, 2), (16, 1, 1), (4, 2, 1))):
            settings = {"data": data, "tensor": tensor, "pipeline": pipeline, "global_batch": 16 << number // 2}
            settings |= {"sequence_length": 128, "precision": "fp16"}
            seconds = predictor.iteration(gpu, Job(**settings)).seconds  # type: ignore[arg-type]
            rows.append({"model": model, "gpu": A100, "seconds": seconds, **settings})
    folder = tmp_path_factory.mktemp("runs")
    table = pd.DataFrame(rows)
    table[::2].to_csv(folder / "train.csv", index=False)
    table[1::2].to_csv(folder / "test.csv", index=False)
    return folder / "train.csv", folder / "test.csv"


def test_train_and_calibrate_change_the_prediction(tables: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    train, test = tables
    assert main(["train", "distributed", "--data", str(train), "--out", str(tmp_path / "mine"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["rows"], answer["gpus"]) == (6, [A100]) and answer["seconds"] >= 0
    assert answer["in_sample_mape"] < 5
    assert set(answer["coefficients"]) == {one.name for one in fields(Coefficients)}
    row = pd.read_csv(test).iloc[0]
    job = (*_ONE, "--dp", str(row["data"]), "--global-batch", str(row["global_batch"]), "--precision", "fp16")
    shipped = _answer(capsys, *job)["seconds"]
    mine = _answer(capsys, *job, "--calibration", str(tmp_path / "mine"))["seconds"]
    assert abs(mine / row["seconds"] - 1) < abs(shipped / row["seconds"] - 1)
    assert main(["calibrate", str(tmp_path / "mine"), "--data", str(test), "--out", str(tmp_path / "again")]) == 0
    assert "fitted on 6 runs" in capsys.readouterr().out
    mine, again = (FittedModel.load(tmp_path / name) for name in ("mine", "again"))
    assert again.coefficients != mine.coefficients and (again.runs, again.gpus) == (6, (A100,))


def test_training_needs_something_to_fit_on(tmp_path: Path, capsys: Capture) -> None:
    assert main(["train", "distributed", "--out", str(tmp_path)]) == 2
    assert "there is nothing to fit on" in capsys.readouterr().err


def test_evaluation_on_other_runs(tables: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    train, test = map(str, tables)
    plot = tmp_path / "errors.png"
    assert main(["evaluate", "distributed", "--train", train, "--test", test, "--plot", str(plot), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {"mape", "median_ape", "rmse", "r2", "n", "coverage", "by", "baselines", "regret"} <= set(answer)
    assert answer["n"] == 6 and answer["coverage"] == 1 and answer["mape"] < 6
    assert set(answer["by"]["size"]) == {MODEL, LARGER} and "DP+TP+PP" in answer["by"]["parallelism"]
    assert set(answer["baselines"]) == {"seed", "roofline", "neusight-style", "vtrain-style"}
    assert answer["baselines"]["roofline"]["n"] == 6 and answer["baselines"]["roofline"]["mape"] > answer["mape"]
    assert plot.stat().st_size > 1000


def test_evaluation_by_size_and_by_rows(tables: tuple[Path, Path], tmp_path: Path, capsys: Capture) -> None:
    pd.read_csv(tables[0]).groupby("model").head(1).to_csv(tmp_path / "two.csv", index=False)
    data = ("evaluate", "distributed", "--data", str(tmp_path / "two.csv"))
    assert main([*data, "--protocol", "rows", "--rows", "0", "--recipe", "all", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert answers[0]["recipe"] == "default" and len(answers) == 5
    assert main(data) == 0
    text = capsys.readouterr().out
    assert "each model size predicted by a fit on all others" in text and "neusight-style" in text and LARGER in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "give either --data or both"),
        (("--data", "a.csv", "--train", "a.csv", "--test", "a.csv"), "give either --data or both"),
        (("--train", "a.csv", "--test", "a.csv", "--protocol", "size"), "leave it out"),
        (("--data", "a.csv", "--rows", "3"), "belongs to --protocol rows"),
        (("--data", "a.csv", "--protocol", "gpu"), "--operators PATH"),
        (("--data", "a.csv", "--probe", "3"), "belongs to --protocol gpu"),
        (("--data", "/nowhere.csv"), "cannot read"),
    ],
)
def test_evaluation_refuses_in_one_sentence(options: tuple[str, ...], said: str, capsys: Capture) -> None:
    assert main(["evaluate", "distributed", *options]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
