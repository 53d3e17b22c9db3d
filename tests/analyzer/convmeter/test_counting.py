"""The metrics of a network: by hand on small ones, against the public table on large ones, and what cannot be counted."""

from importlib.util import find_spec
from typing import Any

import pandas as pd
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from epochcast.analyzer.backends.convmeter.counting import count  # noqa: E402
from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, KINDS, metrics_of  # noqa: E402
from epochcast.analyzer.backends.network.find import find_network  # noqa: E402
from epochcast.analyzer.errors import InputError  # noqa: E402


def counted(network: nn.Module, *shape: int) -> dict[str, float]:
    """All values that are not 0."""
    values = count(network, (torch.empty(shape),), "net", shape[-1])[""]
    assert set(values) == set(COLUMNS)
    return {name: value for name, value in values.items() if value}


def test_a_small_network_has_the_metrics_of_its_layers() -> None:
    network = nn.Sequential(
        *(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        nn.Linear(64, 5),
    )
    assert counted(network, 1, 3, 8, 8) == {
        "flops": 2 * 256 * 27 + 2 * 64 * 5,
        "conv_inputs": 192,
        "conv_outputs": 256,
        "narrow_flops": 2 * 256 * 27,  # 27 products per element
        "spatial_flops": 2 * 256 * 27,
        "spatial_traffic": 192 + 256,
        "linear_flops": 2 * 64 * 5,
        "linear_traffic": 64 + 5,
        "normalisation_traffic": 2 * 256,
        "elementwise_traffic": 2 * 256,
        "pooling_traffic": 256 + 64,
        "weights": 108 + 8 + 325,
        "conv_weights": 108,
        "linear_weights": 320,
        "layers": 2,
        "parameter_tensors": 5,
        "operators": 5,  # flattening moves nothing
        **{f"{kind}_operators": 1 for kind in ("spatial", "linear", "normalisation", "elementwise", "pooling")},
    }


@pytest.mark.parametrize(
    ("layer", "kind", "flops"),
    [
        (nn.Conv2d(16, 8, 1), "pointwise", 2 * 8 * 64 * 16),
        (nn.Conv2d(16, 8, 3, padding=1), "spatial", 2 * 8 * 64 * 16 * 9),
        (nn.Conv2d(16, 8, (1, 7), padding=(0, 3)), "spatial", 2 * 8 * 64 * 16 * 7),
        (nn.Conv2d(16, 32, 3, padding=1, groups=2), "grouped", 2 * 32 * 64 * 8 * 9),
        (nn.Conv2d(16, 16, 3, padding=1, groups=16), "depthwise", 2 * 16 * 64 * 9),
        (nn.Conv2d(16, 16, 3, padding=1, groups=4), "depthwise", 2 * 16 * 64 * 4 * 9),
        # Each of the 16 x 64 inputs is multiplied with 8 channels of a 2 x 2 kernel.
        (nn.ConvTranspose2d(16, 8, 2, stride=2), "spatial", 2 * 16 * 64 * 8 * 4),
    ],
)
def test_convolutions_by_kernel_and_groups(layer: nn.Module, kind: str, flops: float) -> None:
    values = counted(layer, 1, 16, 8, 8)
    assert values["flops"] == values[f"{kind}_flops"] == flops
    assert values[f"{kind}_operators"] == values["operators"] == values["layers"] == 1


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)

    def forward(self, x: Any) -> Any:
        query, key, value = self.project(x).chunk(3, dim=-1)
        return functional.scaled_dot_product_attention(query, key, value)


def test_products_of_activations_are_no_dense_layers() -> None:
    values = counted(Attention(), 1, 5, 8)
    assert values["linear_flops"] == 2 * 5 * 8 * 24
    assert values["attention_flops"] == 2 * (2 * 5 * 5 * 8)
    assert (values["attention_operators"], values["layers"]) == (2, 1)


class Counting(nn.Module):
    """Changes its state as it runs, and works with tensors that are no state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.scale = torch.arange(4.0).view(1, 4, 1, 1)
        self.body = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Dropout())
        self.body[1].eval()

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return self.body(x) * self.scale + torch.ones(4, 1, 1)


def test_the_network_is_left_as_it_was() -> None:
    network = Counting()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    modes = [module.training for module in network.modules()]
    x = torch.randn(1, 3, 4, 4)
    values = count(network, (x,), "net", 4)[""]
    assert values["elementwise_traffic"] == 4 * 64  # each reads and writes the image; dropout does not run
    assert [module.training for module in network.modules()] == modes
    assert modes[0] and not modes[3]
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())
    assert network(x).shape == (1, 4, 4, 4)


class Branch(nn.Module):
    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (Branch(), r"test_counting\.py line \d+ \(return x if x\.sum\(\) > 0 else -x\).*depend on values"),
        (nn.Sequential(nn.Flatten(), nn.Linear(7, 2)), "instead of 4 pixels"),
        (nn.Conv2d(3, 4, 9), "instead of 4 pixels"),
        (nn.LazyConv2d(4, 1), "uninitialized parameter"),
        (nn.ReLU(), "no convolution, dense layer or matrix product"),
    ],
)
def test_what_cannot_be_counted_is_refused_in_one_sentence(network: nn.Module, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        count(network, (torch.empty(1, 3, 4, 4),), "net", 4)
    assert "\n" not in str(refused.value)
    assert all(module.training for module in network.modules())


AS_IN_THE_TABLE = {
    "flops": "F",
    "conv_inputs": "conv_in",
    "conv_outputs": "conv_out",
    "narrow_flops": "F_smallK",
    "weights": "W",
    "conv_weights": "convW",
    "layers": "L",
    "parameter_tensors": "nparam",
}
KINDS_IN_THE_TABLE = dict(zip(KINDS, ("sp", "pw", "grp", "dw", "lin", "att", "ew", "bn", "pool", "cat"), strict=True))


@pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed (extra convnets)")
@pytest.mark.parametrize("name", ["regnety_004", "densenet121"])
def test_networks_of_timm_have_the_metrics_of_the_public_table(name: str, shared_data: Any) -> None:
    table = pd.read_csv(shared_data / "convnets" / "timm_layer_features.csv.gz")
    row = table[table["model"] == name].iloc[0]
    network, inputs = find_network(f"timm:{name}", int(row["img"]))
    values = count(network, inputs, name, int(row["img"]))[""]
    for ours, theirs in AS_IN_THE_TABLE.items():
        assert values[ours] == row[theirs], ours
    for kind, theirs in KINDS_IN_THE_TABLE.items():
        for figure, prefix in (("flops", "F"), ("traffic", "IO"), ("operators", "n")):
            ours, column = f"{kind}_{figure}", f"{prefix}_{theirs}"
            if column not in row or ours == "linear_traffic":  # which has the weights there
                continue
            # There, batch normalisation reads its statistics too, and has an empty allocation counted next to it.
            spare = {"normalisation_traffic": 0.012 * row[column], "elementwise_operators": row["n_bn"]}.get(ours, 0)
            assert 0 <= row[column] - values[ours] <= spare, column


@pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed (extra convnets)")
@pytest.mark.parametrize(("network", "size"), [("shufflenet_v2_x0_5", 64), ("resnet50", 224), ("inception_v3", 299)])
def test_the_table_that_is_shipped_is_what_is_counted_now(network: str, size: int) -> None:
    """If this fails: lab/speed/convmeter/known_metrics.py --write."""
    module, inputs = find_network(f"torchvision:{network}", size)
    assert metrics_of(network, size) == count(module, inputs, network, size)[""]


def test_figures_that_were_published() -> None:
    # He et al. 2016, table 1: 3.8e9 multiplications and additions, without the additions of the downsampling 1 x 1 kernels
    # in 3 x 3 that torchvision has (its documentation: 4.09 GFLOPS of multiply-adds).
    values = metrics_of("resnet50", 224)
    assert values["flops"] / 2 == pytest.approx(4.09e9, rel=1e-3)
    assert values["weights"] == 25_557_032
    assert (values["layers"], values["normalisation_operators"]) == (54, 53)
