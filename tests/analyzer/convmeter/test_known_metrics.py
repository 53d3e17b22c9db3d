"""The table of metrics that comes with the product."""

from importlib.util import find_spec

import pytest

from epochcast.analyzer.backends.convmeter.known_metrics import find_known
from epochcast.analyzer.backends.convmeter.network_metrics import metrics_of


def test_figures_that_were_published() -> None:
    # He et al. 2016, table 1: 3.8e9 multiplications and additions, without the additions of the downsampling 1 x 1 kernels
    # in 3 x 3 that torchvision has (its documentation: 4.09 GFLOPS of multiply-adds).
    values = metrics_of("resnet50", 224).values
    assert values["flops"] / 2 == pytest.approx(4.09e9, rel=1e-3)
    assert values["weights"] == 25_557_032
    assert (values["layers"], values["normalisation_operators"]) == (54, 53)


@pytest.mark.parametrize("name", ["Bottleneck4", "layer2.1"])
def test_a_block_is_found_by_either_name(name: str) -> None:
    found = metrics_of("torchvision:resnet50", 224, name)
    assert found.block == "layer2.1"
    # 28 x 28 pixels: 512 to 128 channels, 3 x 3 of 128, 128 to 512.
    assert found.values["flops"] == 2 * 784 * (512 * 128 + 128 * 128 * 9 + 128 * 512)


@pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed (extra convnets)")
@pytest.mark.parametrize(
    ("network", "size", "block"),
    [("shufflenet_v2_x0_5", 64, ""), ("efficientnet_b0", 128, "MBConv2"), ("inception_v3", 299, "")],
)
def test_the_table_is_what_is_counted_now(network: str, size: int, block: str) -> None:
    """If this fails: lab/speed/convmeter/known_metrics.py --write."""
    from epochcast.analyzer.backends.convmeter.counting import block_path, count
    from epochcast.analyzer.backends.network.find import find_network

    module, inputs = find_network(f"torchvision:{network}", size)
    now = count(module, inputs, network, size, block_path(module, block) if block else "")
    assert find_known(network, size, block) == now
