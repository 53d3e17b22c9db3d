"""Paleo: operations as published, seconds as computed by hand, one constant of least error."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra torch)")

from epochcast.analyzer.backends.networks import build  # noqa: E402
from epochcast.analyzer.backends.paleo import (  # noqa: E402
    Layer,
    fit_percent_of_peak,
    predict_forward_seconds,
    predict_step_seconds,
)
from epochcast.analyzer.errors import InputError  # noqa: E402
from epochcast.regressor import Gpu, load_catalog  # noqa: E402
from lab.speed.regressor.paleo_layers import layers_of  # noqa: E402

# 1e12 FLOP/s without dual issue, 1e11 bytes/s.
ROUND = Gpu("round", 7.0, 1, 500, 1e9, 2**30, 1e11, 100)


def layers(name: str, image_size: int) -> list[Layer]:
    with torch.device("meta"):
        return layers_of(build(name, image_size, classes=1000), image_size)


@pytest.mark.parametrize(
    ("name", "image_size", "multiply_adds"),
    [
        # As torchvision's documentation states them; ResNet50's is of the article (Table 1), whose strides stand elsewhere.
        ("VGG16", 224, 15.47e9),
        ("ResNet18", 224, 1.81e9),
        ("ResNet50", 224, 3.8e9),
        ("MobileNetV2", 224, 0.30e9),
        ("InceptionV3", 299, 5.71e9),
    ],
)
def test_operations_are_as_published(name: str, image_size: int, multiply_adds: float) -> None:
    learnt = [layer for layer in layers(name, image_size) if layer.weights]
    assert sum(layer.flops for layer in learnt) / 2 == pytest.approx(multiply_adds, rel=0.02)


def test_layers_are_counted_as_by_hand() -> None:
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, (3, 5), stride=2, groups=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=4, bias=False),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(8, 10),
    )
    network.train()
    # 17 x 17 pixels: (17 - 3) // 2 + 1 = 8 rows and (17 - 5) // 2 + 1 = 7 columns, then 4 x 3.
    assert layers_of(network, 17) == [
        Layer("Conv2d", 2 * 3 * 15 * 8 * 56, 3 * 289, 8 * 56, 3 * 15 * 8 + 8),
        Layer("MaxPool2d", 2 * 4 * 8 * 12, 8 * 56, 8 * 12, 0),
        Layer("Conv2d", 2 * 2 * 9 * 8 * 12, 8 * 12, 8 * 12, 2 * 9 * 8),
        Layer("AdaptiveAvgPool2d", 2 * 8 * 12, 8 * 12, 8, 0),
        Layer("Dropout", 8, 8, 8, 0),
        Layer("Linear", 2 * 8 * 10, 8, 10, 8 * 10 + 10),
    ]
    assert network.training, "the network is given back as it was"
    assert not any(module._forward_hooks for module in network.modules())


def test_a_step_is_the_sum_of_its_passes_by_hand() -> None:
    network = [Layer("Conv2d", 1e9, 1000, 2000, 50), Layer("MaxPool2d", 1e6, 2000, 500, 0), Layer("Linear", 1e8, 500, 10, 5000)]
    batch = 4
    convolution = batch * 1e9 / 1e12 + (batch * 3000 + 50) * 4 / 1e11
    pooling = batch * 1e6 / 1e12 + batch * 2500 * 4 / 1e11
    dense = batch * 1e8 / 1e12 + (batch * 510 + 5000) * 4 / 1e11
    update = 2 * 5050 / 1e12 + 3 * 5050 * 4 / 1e11
    forward = convolution + pooling + dense
    # Backward: by the weights alone where the images come in, by the input alone where nothing is learnt.
    backward = convolution + pooling + 2 * dense
    assert predict_forward_seconds(network, ROUND, batch, percent_of_peak=1) == pytest.approx(forward)
    assert predict_step_seconds(network, ROUND, batch, percent_of_peak=1) == pytest.approx(forward + backward + update)


def test_seconds_scale_as_the_data_sheet() -> None:
    network = layers("ResNet18", 64)
    seconds = predict_step_seconds(network, ROUND, 16)
    twice = replace(ROUND, boost_clock=2e9, memory_bandwidth=2e11)
    assert predict_step_seconds(network, twice, 16) == pytest.approx(seconds / 2)
    assert predict_step_seconds(network, ROUND, 16, percent_of_peak=0.31) == pytest.approx(2 * seconds)
    assert predict_step_seconds(network, ROUND, 16, dtype_bytes=2) < seconds
    assert predict_step_seconds(network, ROUND, 32) < 2 * seconds, "the update of the weights is paid once per step"


def test_dual_issue_of_an_a10g_is_not_counted() -> None:
    """By the data sheet it computes four times as fast as a T4; in training it does not."""
    compute_bound, catalog = [Layer("Conv2d", 1e12, 1, 1, 1)], load_catalog()
    seconds = {gpu: predict_step_seconds(compute_bound, catalog[gpu], 1) for gpu in ("T4", "A10G")}
    assert 2 < seconds["T4"] / seconds["A10G"] < 2.3


def test_the_fitted_constant_has_the_least_mape() -> None:
    generator = np.random.default_rng(0)
    measured = generator.lognormal(size=40)
    at_full_peak = 0.3 * measured * generator.lognormal(sigma=1.0, size=40)

    def mape(constant: float) -> float:
        return float(np.abs(at_full_peak / constant / measured - 1).mean())

    fitted = fit_percent_of_peak(at_full_peak, measured)
    assert mape(fitted) <= min(mape(constant) for constant in np.geomspace(0.01, 10, 2000)) + 1e-12


def test_a_network_that_takes_no_such_image_is_refused() -> None:
    with pytest.raises(InputError, match="an image of 64 pixels"):
        layers_of(build("VGG11", 32), 64)
    with pytest.raises(InputError, match="nothing to count"):
        layers_of(torch.nn.Sequential(torch.nn.ReLU()), 32)
