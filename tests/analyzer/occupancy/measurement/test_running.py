"""Networks that run: weights, inputs, and what is kept."""

import sys

import pytest

pytest.importorskip("torch")

import torch

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.measurement import running
from epochcast.analyzer.backends.occupancy.measurement.running import RunningNetworks

LSTM = Configuration("lstm", 3, sequence=5, hidden=8, layers=1)
NETS = """
from torch import nn, zeros

class Net(nn.Sequential):
    def __init__(self, width=8):
        super().__init__(nn.Embedding(4, width), nn.Linear(width, 2))

def tokens(batch=1, sequence=6):
    return Net(), zeros(batch, sequence).long()
"""


@pytest.fixture
def nets(tmp_path, monkeypatch):
    (tmp_path / "token_nets.py").write_text(NETS)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("token_nets", None)


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)])
def test_a_step_computes_in_the_precision(precision, dtype):
    answer, _ = RunningNetworks("cpu").step(Configuration("lstm", 3, sequence=5, hidden=8, layers=1, precision=precision))()
    assert answer.shape == (3, 5, 8)
    assert answer.dtype == dtype
    assert answer.isfinite().all()
    assert not answer.requires_grad


@pytest.mark.parametrize("channels", [1, 5, 3])
def test_one_network_takes_several_numbers_of_channels(channels, monkeypatch):
    built = []
    build = running.build_network
    monkeypatch.setattr(running, "build_network", lambda *what: built.append(what[1:]) or build(*what))
    networks = RunningNetworks("cpu")
    for number in (2, channels):
        assert networks.step(Configuration("lenet", 2, number, 32))().shape == (2, 10)
    assert built.count(("cpu",)) == 1


def test_tokens_of_a_user_s_network_are_in_every_vocabulary(nets):
    answer = RunningNetworks("cpu").step(Configuration("token_nets:tokens", 7))()
    assert answer.shape == (7, 6, 2)


def test_what_others_hold_is_told_apart(monkeypatch):
    networks = RunningNetworks("cpu")
    networks.step(LSTM)
    wide = Configuration("lstm", 3, sequence=5, hidden=16, layers=1)
    assert networks.bytes_of_others(LSTM) == 0
    held = networks.bytes_of_others(wide)
    assert held == sum(one.nbytes for one in torch.nn.LSTM(8, 8).parameters())
    networks.step(wide)
    assert networks.bytes_of_others(wide) == held
    networks.clear()
    assert networks.bytes_of_others(wide) == 0
    networks.step(LSTM)
    monkeypatch.setattr(running, "free_bytes", lambda device: 1.0)
    networks.step(wide)
    assert networks.bytes_of_others(wide) == 0
