"""Networks by what the user calls them."""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")


from epochcast.analyzer.backends.network import find as finding  # noqa: E402
from epochcast.analyzer.backends.network.find import find_network  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402

needs_convnets = pytest.mark.skipif(
    find_spec("torchvision") is None or find_spec("timm") is None,
    reason="torchvision or timm is not installed (extra convnets)",
)

OWN = """
import torch
from torch import nn

def plain():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten())

def sized(image_size, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * image_size**2, classes))

def with_inputs(batch):
    return nn.Bilinear(8, 8, 2), (torch.zeros(batch, 8), torch.zeros(batch, 8))

def of_four():
    return nn.Sequential(nn.Conv2d(1, 4, 3)), torch.zeros(4, 1, 20, 20)

def works_with_its_weights():
    layer = nn.Linear(4, 4)
    layer.scale = layer.weight.sum().item()
    return layer, torch.zeros(1, 4)

def broken():
    raise RuntimeError("out of ideas\\nreally")

def without_tensors():
    return nn.ReLU(), (3,)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_networks.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_networks", raising=False)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("factory", "shapes", "weights"),
    [
        ("plain", [(1, 3, 16, 16)], 112),
        ("sized", [(1, 3, 16, 16)], 768 * 1000 + 1000),
        ("with_inputs", [(1, 8), (1, 8)], 130),
        ("of_four", [(1, 1, 20, 20)], 40),
        ("works_with_its_weights", [(1, 4)], 20),
    ],
)
def test_a_factory_of_ones_own_is_built_without_memory_and_called_with_one_image(
    factory: str, shapes: list[tuple[int, ...]], weights: int
) -> None:
    network, inputs = find_network(f"own_networks:{factory}", 16)
    assert [tuple(one.shape) for one in inputs] == shapes
    assert all(one.is_meta for one in (*inputs, *network.parameters()))
    assert sum(one.numel() for one in network.parameters()) == weights


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("own_networks:broken", "cannot be built: RuntimeError: out of ideas really"),
        ("own_networks:without_tensors", "no tensors"),
        ("two words:net", "is not a network"),
        ("Resnet-18", "unknown network 'Resnet-18'; did you mean"),
    ],
)
def test_what_cannot_be_found_or_built_is_refused_in_one_sentence(text: str, said: str, device: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        find_network(text, 32, device)
    assert "\n" not in str(refused.value)


# Trainable weights as the documentation of torchvision and timm has them, auxiliary heads left out.
@needs_convnets
@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("resnet18", 11_689_512),
        ("torchvision:regnet_y_400mf", 4_344_144),
        ("googlenet", 6_624_904),
        ("timm:resnet18", 11_689_512),
        ("mobilenetv2_100", 3_504_872),
    ],
)
def test_networks_of_libraries_are_found_by_name(text: str, weights: int) -> None:
    network, _ = find_network(text, 224)
    assert sum(one.numel() for one in network.parameters()) == weights
    assert all(one.is_meta for one in network.parameters())


def test_a_library_that_is_missing_is_named_with_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(InputError, match=r"timm cannot be imported.*\.\[convnets\]"):
        find_network("timm:resnet18", 224)
    with pytest.raises(InputError, match=r"of timm.*\.\[convnets\]"):
        find_network("qqqqqq", 224)


def test_operators_that_torchvision_lacks_are_declared_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a torchvision for CUDA next to a torch for processors."""
    loaded = ModuleType("torchvision")

    def load(name: str) -> ModuleType:
        for operator in ("epochcast_test_a", "epochcast_test_b"):
            if not hasattr(torch.ops.torchvision, operator):
                raise RuntimeError(f"operator torchvision::{operator} does not exist")
        return loaded

    monkeypatch.setattr(finding, "import_module", load)
    monkeypatch.setattr(finding, "sys", SimpleNamespace(modules={}))
    assert finding.import_torchvision() is loaded
