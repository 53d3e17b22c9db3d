"""``epochcast measure operators``: a fair order, a corpus that others read, and runs that continue one another."""

import itertools
import random
import time

import pandas as pd
import pytest

from epochcast.analyzer.errors import InputError

pytest.importorskip("torch")

import torch

from epochcast.analyzer.backends.distributed.measure import MeasureQuestion, OperatorMeasurement
from epochcast.analyzer.backends.distributed.operator_time import collection
from epochcast.analyzer.backends.distributed.operator_time.collection import (
    COLUMNS,
    PlannedOperator,
    collect,
    plan,
    random_operators,
)
from epochcast.analyzer.backends.distributed.operator_time.corpus import read_corpus
from epochcast.analyzer.backends.distributed.precision import PRECISIONS
from epochcast.analyzer.plugins import Settings
from epochcast.regressor import load_catalog

pytestmark = pytest.mark.usefixtures("one_thread")

MODEL = "gpt2:hidden=16,layers=1,heads=2,vocab=32,positions=8"
FP32 = PRECISIONS["fp32"]


@pytest.fixture(scope="module")
def items():
    return plan([MODEL], [FP32], "cpu", seed=1)


@pytest.fixture(scope="module")
def small(items):
    """Items that take a millisecond at most."""
    return [item for item in items if item.operator.bytes < 1e5 and item.operator.flops < 1e6]


def silent(*_):
    pass


def test_every_kind_is_in_any_prefix_and_no_operator_twice(items):
    kinds = {item.operator.kind for item in items}
    assert {item.operator.kind for item in items[: len(kinds)]} == kinds >= {"matmul", "attention", "normalisation", "softmax"}
    assert len({item.operator for item in items}) == len(items)
    assert all(item.operator.flops <= 3e10 for item in items)
    other = plan([MODEL], [FP32], "cpu", seed=2)
    assert [item.operator for item in other] != [item.operator for item in items]


def test_precision_is_that_of_the_operator_itself():
    assert {item.computed for item in plan([MODEL], [PRECISIONS["amp-bf16"]], "cpu", seed=0)} >= {"fp32", "bf16"}
    product = next(one for one in random_operators("float32", random.Random(0)) if one.kind == "matmul")
    assert [PlannedOperator(product, PRECISIONS[name]).computed for name in ("fp32", "tf32")] == ["fp32", "tf32"]


def test_every_other_random_operator_is_aligned():
    some = list(itertools.islice(random_operators("bfloat16", random.Random(0)), 140))
    assert {one.dtype for one in some} == {"bfloat16"}
    products = [one for one in some if one.name == "aten.mm.default"]
    assert len(products) == 20
    aligned = [all(size % 64 == 0 for size in one.gemm[1:]) for one in products]
    assert aligned[1::2] == [True] * 10
    assert not any(aligned[::2])
    assert all(one.flops == 2.0 * one.gemm[1] * one.gemm[2] * one.gemm[3] for one in products)


def test_a_corpus_grows_and_is_read_again(small, tmp_path):
    path = tmp_path / "operators.csv"
    first = collect(small[:30], path, "cpu", 0.0, silent)
    assert (first.rows, first.new, first.left, first.failed) == (24, 24, 6, 0)
    told = []
    second = collect(small[:30], path, "cpu", 60.0, lambda *done: told.append(done))
    assert (second.rows, second.new, second.left) == (30, 6, 0)
    assert told == [(6, 6)]
    assert collect(small[:30], path, "cpu", 60.0, silent).new == 0
    table = pd.read_csv(path)
    assert list(table) == list(COLUMNS)
    assert (table["seconds"] > 0).all()
    assert (table["driver"] == f"{torch.get_num_threads()} threads").all()
    corpus = read_corpus(path, load_catalog())
    assert len(corpus) == 30
    assert set(corpus["dtype"]) == {"float32"}


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", "\x00\xff"])
def test_another_file_is_not_overwritten(small, tmp_path, content):
    path = tmp_path / "operators.csv"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(InputError, match="give another file"):
        collect(small[:1], path, "cpu", 0.0, silent)
    assert path.read_bytes() == content.encode("latin-1")


def test_the_command_says_what_it_did(tmp_path, answered, monkeypatch):
    monkeypatch.setattr(collection, "_MOST_FLOPS", {"cpu": 1e6})  # a millisecond at most
    monkeypatch.setattr(collection, "_MOST_BYTES", {"cpu": 1e5})
    path = tmp_path / "operators.csv"
    asked = ("--device", "cpu", "--model", MODEL, "--precision", "fp32", "--budget", "0", "--out", path)
    answer = answered("measure", "operators", *asked)
    assert answer["rows"] == answer["new"] == len(pd.read_csv(path)) == 24 - answer["failed"]
    assert answer["left"] > 0


def test_listing_counts_towards_the_budget(tmp_path, monkeypatch):
    budgets = []

    def slow_plan(*_):
        time.sleep(0.2)
        return []

    def collected(operators, path, device, budget_seconds, progress):
        budgets.append(budget_seconds)
        return collection.CollectedOperators(0, 0, 0, 0)

    monkeypatch.setattr(collection, "plan", slow_plan)
    monkeypatch.setattr(collection, "collect", collected)
    question = MeasureQuestion(device="cpu", budget=60, out=tmp_path / "x.csv")
    assert OperatorMeasurement(Settings()).answer(question).status == 1
    assert budgets[0] <= 60 - 0.2


def test_listing_is_reported():
    lines = []
    plan([MODEL], [FP32], "cpu", 1, lines.append)
    assert lines == [f"listing the operators of {MODEL} in fp32"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"--precision": "fp12"}, "unknown precision 'fp12'"), ({"--out": "nowhere/x.csv"}, "cannot write")],
)
def test_bad_input_is_one_sentence(tmp_path, monkeypatch, refused, arguments, said):
    monkeypatch.chdir(tmp_path)
    given = {"--device": "cpu", "--model": MODEL, "--precision": "fp32", "--budget": "0", "--out": "x.csv"} | arguments
    assert said in refused("measure", "operators", *itertools.chain(*given.items()))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_one_sentence(tmp_path, refused):
    assert "no CUDA device" in refused("measure", "operators", "--device", "cuda", "--out", tmp_path / "x.csv")
