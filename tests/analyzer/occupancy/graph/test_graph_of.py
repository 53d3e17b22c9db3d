"""Networks by name: what they are built of, which sizes they take, and what is kept of them."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")
if find_spec("torchvision") is None:
    pytest.skip("torchvision is not installed (extra convnets)", allow_module_level=True)

from epochcast.analyzer.backends.occupancy import networks as module  # noqa: E402
from epochcast.analyzer.backends.occupancy.graph.from_module import graph_as_given  # noqa: E402
from epochcast.analyzer.backends.occupancy.networks import (  # noqa: E402
    NetworkConfiguration,
    build_network,
    graph_of,
)
from epochcast.analyzer.errors import InputError  # noqa: E402

OWN = """
import torch
from torch import nn

def tokens():
    return nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 2)), torch.zeros(3, 5, dtype=torch.long)

def image():
    return nn.Conv2d(3, 4, 3)

def broken():
    raise RuntimeError("of its own")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_networks.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("own_networks", None)
    return "own_networks"


@pytest.mark.parametrize(
    "asked",
    [
        NetworkConfiguration("lenet", 5, image_size=64),
        NetworkConfiguration("lstm", 6, sequence=9),
        NetworkConfiguration("resnet18", 3, image_size=64),
    ],
    ids=lambda one: one.network,
)
def test_a_graph_is_the_one_of_the_network_at_that_batch(asked: NetworkConfiguration) -> None:
    network, inputs = build_network(asked)
    assert all(one.is_meta for one in network.parameters())
    fresh = graph_as_given(network, inputs, asked.network, asked.batch)
    graph = graph_of(asked)
    assert graph.words == fresh.words
    assert graph.batch == asked.batch
    np.testing.assert_allclose(graph.sizes, fresh.sizes)


def test_a_graph_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = []
    read = module._read
    monkeypatch.setattr(module, "_read", lambda asked: exported.append(asked) or read(asked))
    module._remembered.cache_clear()
    for batch in (1, 4, 4):
        graph_of(NetworkConfiguration("lenet", batch))
    assert graph_of(NetworkConfiguration("lenet", 7, precision="fp16")).batch == 7
    assert [one.batch for one in exported] == [1]
    graph_of(NetworkConfiguration("lenet", 1, image_size=64))
    assert len(exported) == 2


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (NetworkConfiguration("lstm", 1, image_size=5), r"lstm has no image size, but image size 5 was given; leave it out"),
        (NetworkConfiguration("bert", 1, sequence=513), r"bert cannot have sequence 513; give one from 1 to 512"),
        (NetworkConfiguration("resnet99", 1), r"unknown network 'resnet99'; did you mean"),
        (
            NetworkConfiguration("alexnet", 1, image_size=32),
            r"alexnet cannot be traced at alexnet.py line \d+ .* Output size is too small",
        ),
    ],
)
def test_what_does_not_apply_is_one_sentence(asked: NetworkConfiguration, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        graph_of(asked)
    assert "\n" not in str(raised.value)


def test_a_users_factory_is_read_every_time(own: str) -> None:
    graph = graph_of(NetworkConfiguration(f"{own}:tokens", 6))
    assert graph.words == ("embedding", "linear")
    assert graph.column("written").tolist() == [6 * 5 * 8, 6 * 5 * 2]
    wider = graph_of(NetworkConfiguration(f"{own}:image", 2, image_size=10))
    assert wider.column("read").tolist() == [2 * 3 * 100]


@pytest.mark.parametrize(
    ("factory", "sizes", "said"),
    [
        ("tokens", {"sequence": 3}, "tokens has no sequence, but sequence 3 was given; leave it out"),
        ("broken", {}, "cannot be built: RuntimeError: of its own"),
    ],
)
def test_what_is_wrong_with_a_factory_is_one_sentence(own: str, factory: str, sizes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        graph_of(NetworkConfiguration(f"{own}:{factory}", 2, **sizes))
