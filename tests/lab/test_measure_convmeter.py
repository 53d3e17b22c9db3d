"""``python -m lab.measure convmeter`` on this machine's CPU: small networks, and the plan of what to measure."""

import sys

import pandas as pd
import pytest

from epochcast.analyzer.backends.convmeter.metrics import TIMES, read_points

torch = pytest.importorskip("torch")

from lab.convmeter.blocks import block_path  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

NETWORKS = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, width):
        layers = [nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        super().__init__(*layers, nn.Linear(width, 10))

def small():
    return Net(8)

def one_value_per_channel():
    return nn.Sequential(nn.Conv2d(3, 8, 32), nn.BatchNorm2d(8), nn.Flatten())
"""

GRID = ["--device", "cpu", "--image-size", "32", "--batch", "1", "--batch", "2"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_nets.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("my_nets", None)


@pytest.fixture
def benchmark(folder, lab_answer):
    return lambda *arguments, **how: lab_answer("measure", "convmeter", *GRID, *arguments, "--out", "points.csv", **how)


def test_all_phases_are_measured_once(benchmark):
    asked = ["--network", "my_nets:small", "--block", "my_nets:small/Conv2d0", "--precision", "fp32", "--precision", "amp-bf16"]
    first = benchmark(*asked, "--budget", "0")
    assert (first["rows"], first["new"], first["left"], first["failed"]) == (1, 1, 7, 0)
    second = benchmark(*asked)
    assert (second["rows"], second["new"], second["left"], second["failed"]) == (8, 7, 0, 0)
    points = read_points("points.csv")
    keys = ["precision", "block", "batch"]
    assert sorted(points[keys].itertuples(index=False, name=None)) == [
        (precision, block, batch) for precision in ("amp-bf16", "fp32") for block in ("", "0") for batch in (1, 2)
    ]
    assert (points[list(TIMES)] > 0).all(axis=None)
    assert set(points["family"]) == {"my_nets"}
    assert (points[["devices", "nodes"]] == 1).all(axis=None)
    written = pd.read_csv("points.csv")
    assert (written["rounds"] >= 5).all()
    # Medians need not add up, but those of phases lie about their sum.
    parts = written[["forward_seconds", "backward_seconds", "update_seconds"]].sum(axis=1)
    spread = written[[f"{phase}_iqr" for phase in ("forward", "backward", "update", "step")]].sum(axis=1)
    assert ((written["step_seconds"] - parts).abs() <= 3 * spread + 0.2 * parts).all()
    again = benchmark(*asked)
    assert (again["rows"], again["new"]) == (8, 0)


def test_what_cannot_be_trained_keeps_its_inference(benchmark):
    answer = benchmark("--network", "my_nets:one_value_per_channel")
    assert (answer["rows"], answer["failed"]) == (2, 0)
    assert answer["reasons"] == {"Expected more than 1 value per channel when training": 1}
    points = read_points("points.csv").set_index("batch")
    assert (points["inference_seconds"] > 0).all()
    assert points.loc[1, list(TIMES[1:])].isna().all()
    assert points.loc[2, list(TIMES[1:])].notna().all()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--precision", "tf32"], "a CPU does not compute in 'tf32'"),
        (["--block", "resnet50"], "'resnet50' names no block"),
        (["--block", "my_nets:small/Conv9"], "no block 'Conv9'"),
    ],
)
def test_bad_input_is_one_sentence(folder, lab, arguments, said):
    assert said in lab("measure", "convmeter", *GRID, *arguments, "--out", "points.csv", status=2)


class Twig(torch.nn.Sequential):
    pass


TREE = torch.nn.Sequential(Twig(torch.nn.Conv2d(3, 4, 1), Twig(torch.nn.Conv2d(4, 4, 1))), Twig(torch.nn.Conv2d(4, 8, 1)))


@pytest.mark.parametrize(
    ("text", "path"), [("0.1", "0.1"), ("Twig0", "0"), ("Twig1", "0.1"), ("Twig2", "1"), ("Conv2d2", "1.0"), ("1", "1")]
)
def test_blocks_go_by_path_or_by_class_and_number(text: str, path: str) -> None:
    assert block_path(TREE, text) == path
