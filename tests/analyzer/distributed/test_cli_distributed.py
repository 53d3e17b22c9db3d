"""``epochcast predict-model distributed`` from the command line."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from epochcast.analyzer.cli import main
from epochcast.analyzer.words import money

pytestmark = pytest.mark.usefixtures("shared_graphs")

MODEL = "gpt:hidden=128,layers=4,heads=4,vocab=512,positions=128"
A100 = "A100 SXM4 80GB"
_ONE = ("--model", MODEL, "--gpu", A100)


ASK = ("predict-model", "distributed")


def test_the_text_has_all_parts(printed: Callable[..., str], tmp_path: Path) -> None:
    text = printed(*ASK, *_ONE, "--dp", "16", "--global-batch", "32", "--iterations", "10")
    for said in ("per iteration", "tokens/s", "matmul", "optimizer step", "data-parallel", "fits: each GPU", "$", "assumed: "):
        assert said in text
    assert "global batch 32 in 2 micro-batches\n" in text
    prices = tmp_path / "prices.csv"
    prices.write_text("cloud,instance,gpu,count,region,usd_per_hour,source,date\nx,t4,T4,1,any,1,here,2026-01-01\n")
    text = printed(*ASK, *_ONE, "--prices", prices)
    assert f"no on-demand price of a {A100} is known" in text
    assert "global batch 1 in 1 micro-batch\n" in text


def test_out_of_memory_is_an_answer_and_said_first(answered: Callable[..., Any], printed: Callable[..., str]) -> None:
    job = ("--model", "gpt:hidden=4096,layers=32,heads=32,vocab=512,positions=128", "--gpu", "T4", "--precision", "fp16")
    answer = answered(*ASK, *job)
    assert answer["fits"] is False and answer["seconds"] > 0
    assert printed(*ASK, *job).startswith("out of memory: each GPU needs")


_BAD = [
    ("--precision fp16 --precision fp32", "several need --compare and --search"),
    ("--gpu T4", "several need --search"),
    ("--precision fp8", "has no fp8 arithmetic in the catalogue; train in fp32"),
    ("--precision int4", "unknown precision 'int4'; choose one of fp32"),
    ("--zero 4", "zero"),
    ("--tp 3", "does not divide over 3 tensor ranks"),
    ("--cp 3", "does not divide over 3 context ranks"),
    ("--cp 2 --compare --gpus-total 8 --global-batch 8", "leave out context ranks"),
    ("--calibration /nowhere", "fit distributed"),
    ("--plot x.png", "applies only to --compare"),
    ("--search --compare", "give one of them"),
    ("--search --gpus-total 4 --global-batch 8 --plot x.png", "applies only to --compare"),
    ("--search", "--gpus-total N"),
    ("--search --gpus-total 4", "give --global-batch N"),
    ("--compare --global-batch 8", "--gpus-total N"),
]


@pytest.mark.parametrize(("options", "said"), _BAD)
def test_bad_input_is_one_sentence(options: str, said: str, refused: Callable[..., str]) -> None:
    assert said in refused(*ASK, *_ONE, *options.split())


def test_mixed_precision_is_the_default_as_the_gpu_has_it(answered: Callable[..., Any]) -> None:
    for gpu, precision in ((A100, "amp-bf16"), ("T4", "amp-fp16"), ("M60", "fp32")):
        assert answered(*ASK, "--model", MODEL, "--gpu", gpu)["job"]["precision"] == precision


def test_without_torch_the_extra_is_named(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else real(name, *rest))
    assert "'.[torch]'" in refused(*ASK, *_ONE)


def test_a_search_ranks_and_exits_1_where_nothing_fits(
    answered: Callable[..., Any], printed: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    space = ("--search", "--gpus-total", "4", "--global-batch", "16", "--precision", "fp16")
    found = answered(*ASK, *_ONE, *space)["configurations"]
    best = found[0]["job"]
    same = ("--dp", best["data"], "--tp", best["tensor"], "--pp", best["pipeline"], "--micro-batch", best["micro_batch"])
    same += ("--zero", best["zero"], "--recomputation", best["recomputation"], "--global-batch", 16, "--precision", "fp16")
    assert answered(*ASK, *_ONE, *same)["seconds"] == pytest.approx(found[0]["seconds"])
    assert "micro-batch  precision" in printed(*ASK, *_ONE, *space)
    assert main([*ASK, "--model", "GPT-3-6.7B", "--gpu", "T4", "--tp", "1", "--pp", "1", *space]) == 1
    assert "fits into memory; use more GPUs" in capsys.readouterr().err


def test_several_gpus_are_ranked_by_cost(answered: Callable[..., Any], printed: Callable[..., str]) -> None:
    search = (*ASK, *_ONE, "--gpu", "T4", "--search", "--gpus-total", "1", "--gpus-total", "2", "--global-batch", "16")
    search += ("--precision", "fp16", "--micro-batch", "2", "--zero", "0", "--iterations", "100")
    everything = answered(*search)
    assert everything["ranked_by"] == "cost"
    costs = [one["cost"]["usd"] for one in everything["configurations"]]
    rows = printed(*search).splitlines()[4 : 4 + len(costs[:10])]
    assert [row.split()[-1] for row in rows] == [money(usd) for usd in costs[:10]]
    assert costs == sorted(costs) and len({one["gpu"] for one in everything["configurations"]}) == 2


def test_precisions_and_strategies_beside_each_other(printed: Callable[..., str], tmp_path: Path) -> None:
    compare = ("--model", "gpt:hidden=4096,layers=8,heads=32,vocab=512,positions=128", "--gpu", "T4", "--compare")
    compare += ("--precision", "fp32", "--precision", "fp16", "--global-batch", "4", "--plot", tmp_path / "figure.png")
    text = printed(*ASK, *compare, "--gpus-total", "2")
    assert "OOM" in text and "(1, 2, 1)" in text
    assert (tmp_path / "figure.png").stat().st_size > 1000
