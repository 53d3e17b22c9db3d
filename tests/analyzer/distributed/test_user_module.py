"""A user's own module by import path: built, given its inputs, searched for blocks, or refused with the reason."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from epochcast.analyzer.backends.distributed.models.graphs import ModelGraphs  # noqa: E402
from epochcast.analyzer.backends.distributed.models.user_module import (  # noqa: E402
    UserModule,
    find_blocks,
    resolve,
)
from epochcast.analyzer.backends.distributed.plan.job import TrainingConfiguration  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402

SOURCE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Linear(4, width)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return x.sum()

def fixed():
    return Net(), (torch.randn(5, 4),)

def sized(batch, sequence_length):
    return Net(), (torch.randn(batch, sequence_length, 4),)

def deaf(batch):
    return Net(), (torch.randn(5, 4),)

def one_tensor(batch=2):
    return Net(), torch.randn(batch, 4)

def module_alone():
    return Net()

def keywords():
    return Net(), {"x": torch.randn(5, 4)}

def asks_more(width):
    return Net(width), (torch.randn(5, 4),)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder, which is not on Python's path yet."""
    (tmp_path / "own_network.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "exits_when_imported.py").write_text("import sys\nsys.exit('usage: train.py --data')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.delitem(sys.modules, "own_network", raising=False)
    return "own_network"


def _resolved(text: str, batch: int | None = None, sequence_length: int | None = None) -> UserModule:
    made = resolve(text, batch, sequence_length)
    assert isinstance(made, UserModule)
    return made


def test_a_factory_gives_the_module_on_the_meta_device_and_its_inputs(own: str) -> None:
    made = _resolved(f"{own}:fixed")
    assert made.inputs[0].shape == (5, 4)
    assert all(tensor.is_meta for tensor in (*made.module.parameters(), *made.inputs))
    assert find_blocks(made.module) == "layers"
    assert made.module(*made.inputs).shape == ()


def test_sizes_are_handed_to_a_factory_that_takes_them(own: str) -> None:
    assert _resolved(f"{own}:sized", 3, 7).inputs[0].shape == (3, 7, 4)
    assert _resolved(f"{own}:one_tensor", 3, 7).inputs[0].shape == (3, 4)
    assert _resolved(f"{own}:one_tensor").inputs[0].shape == (2, 4)


@pytest.mark.parametrize(
    ("factory", "says"),
    [
        ("module_alone", "without example inputs; its factory must return"),
        ("keywords", "without example inputs"),
        ("asks_more", "cannot be built: TypeError.*width"),
    ],
)
def test_what_is_wrong_with_a_factory_is_said_in_one_sentence(own: str, factory: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        resolve(f"{own}:{factory}")
    assert "\n" not in str(caught.value)


def test_a_module_that_is_not_there_or_ends_the_program_is_refused(own: str) -> None:
    with pytest.raises(InputError, match=r"ModuleNotFoundError.*is its folder the current one"):
        resolve("no_such_network:build")
    with pytest.raises(InputError, match="SystemExit: usage"):
        resolve("exits_when_imported:build")


def test_inputs_of_another_micro_batch_than_asked_for_are_refused(own: str) -> None:
    with pytest.raises(InputError, match="inputs of 5 samples for micro-batches of 8; let its factory take batch"):
        resolve(f"{own}:deaf", batch=8)


def test_a_factory_that_must_be_told_its_batch_is_traced_at_each_micro_batch(own: str) -> None:
    graphs = ModelGraphs.of(f"{own}:sized")
    for micro_batch in (1, 3):
        graph = graphs.graph(
            TrainingConfiguration(micro_batch=micro_batch, global_batch=micro_batch, sequence_length=16, precision="fp32")
        )
        products = [one for block in graph.blocks for one in block.forward if one.kind == "matmul"]
        assert products[0].outputs[0].shape == (micro_batch * 16, 8)
