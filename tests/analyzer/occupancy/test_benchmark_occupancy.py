"""``epochcast benchmark occupancy`` on this machine: kernels modelled for a named GPU, small networks run on the CPU."""

import sys
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("torch")

import torch

from epochcast.analyzer.backends.occupancy.label_files import read_any
from epochcast.analyzer.cli.benchmark import occupancy as benchmark_occupancy

NETS = """
from torch import nn, zeros

class Net(nn.Sequential):
    def __init__(self, width=8):
        super().__init__(nn.Conv2d(3, width, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))

def small(batch=1):
    return Net(), zeros(batch, 3, 32, 32)

class Large(nn.Linear):
    def __init__(self):
        super().__init__(20_000, 20_000, bias=False)

def large(batch=1):
    return Large(), zeros(batch, 20_000)

class Raises(Net):
    def forward(self, x):
        if not (x.is_meta or type(x).__name__ == "FakeTensor"):
            raise KeyError("mine")
        return super().forward(x)

def raises(batch=1):
    return Raises(), zeros(batch, 3, 32, 32)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(benchmark_occupancy, "_STEADY_SECONDS", {"cpu": 0.0})
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("my_nets", None)


@pytest.fixture
def benchmark(answered):
    known = ("--device", "cpu", "--gpu", "H200", "--configurations", "2", "--out", "points.csv")
    return lambda *arguments: answered("benchmark", "occupancy", *known, *arguments)


def test_modelled_rows_say_so_and_are_made_once(benchmark):
    asked = ["--network", "my_nets:small", "--precision", "fp32", "--precision", "bf16"]
    first = benchmark(*asked, "--budget", "0")
    assert (first["rows"], first["new"], first["left"], first["labels"]) == (1, 1, 3, ["modelled"])
    second = benchmark(*asked)
    assert (second["rows"], second["new"], second["left"], second["failed"], second["gpu"]) == (4, 3, 0, 0, "H200 SXM")
    points = read_any(Path("points.csv"))
    assert set(points["labels"]) == {"modelled"}
    batches = {name: set(rows["batch"]) for name, rows in points.groupby("precision")}
    assert batches["fp32"] == batches["bf16"]
    written = pd.read_csv("points.csv")
    assert (written["host_step_s"] > 0).all()
    assert (written["steps"] >= 3).all()
    assert written["software"].unique().tolist() == [f"torch {torch.__version__}"]


def test_what_the_cpu_cannot_run_keeps_its_modelled_row(benchmark):
    answer = benchmark("--network", "my_nets:large", "--network", "my_nets:raises")
    assert (answer["rows"], answer["failed"], answer["reasons"]) == (4, 2, {"KeyError: 'mine'": 2})
    (problem,) = answer["problems"]
    assert problem.startswith("2 steps are too large to be run on this CPU")
    assert pd.read_csv("points.csv")["host_step_s"].isna().all()


def test_the_text_names_what_it_is(printed):
    asked = ("--device", "cpu", "--gpu", "T4", "--configurations", "1", "--network", "my_nets:raises", "--out", "points.csv")
    said = printed("benchmark", "occupancy", *asked)
    assert "points.csv: 1 rows, 1 of them new, of T4 (modelled, not measured); 1 could not be measured, or not wholly" in said
    assert "1 x KeyError: 'mine'" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--device cpu", "name the GPU that they are to be modelled for by --gpu"),
        ("--device cpu --gpu T4 --ncu", "leave out --ncu"),
        ("--device cpu --gpu T4 --network resnet5", "resnet5"),
        ("--device cpu --gpu T4 --network my_nets:small --out my_nets.py", "give another file"),
        ("--device cuda --gpu T4", "leave out --gpu"),
    ],
)
def test_bad_input_is_one_sentence(refused, monkeypatch, arguments, said):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in arguments)
    assert said in refused("benchmark", "occupancy", "--out", "points.csv", *arguments.split())


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_is_said(refused):
    assert "torch finds no CUDA device here" in refused("benchmark", "occupancy", "--device", "cuda", "--out", "points.csv")
