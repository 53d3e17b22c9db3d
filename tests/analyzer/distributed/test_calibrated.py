"""The calibrated roofline, term by term by the calculator."""

import pytest

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.operator_time.calibrated import CalibratedTimes, products_of
from epochcast.analyzer.backends.distributed.precision import precision_named
from epochcast.regressor import load_catalog

A100 = load_catalog().resolve("A100 SXM4 80GB")
PEAK, BANDWIDTH, PROCESSORS = 312e12, A100.memory_bandwidth, 108
NO_LAUNCH = Coefficients(gemm=0.8, gemm_depth=128, gemm_tail=0.5, gemm_bandwidth=0.85, bandwidth=0.7, launch=1e-12)


def product(m: int, n: int, k: int) -> Operator:
    inputs = Tensor((m, k), "float16"), Tensor((k, n), "float16")
    return Operator("aten.mm.default", "matmul", "forward", inputs, (Tensor((m, n), "float16"),), flops=2.0 * m * n * k)


def seconds(operator: Operator, fused: bool = False) -> float:
    return float(CalibratedTimes(A100, precision_named("fp16"), NO_LAUNCH, fused).seconds((operator,))[0])


@pytest.mark.parametrize(
    ("m", "n", "k", "padded", "tiles"),
    [
        (4096, 4096, 4096, 1.0, 32 * 32),
        (4096, 8192, 512, 1.0, 32 * 64),
        (2048, 2000, 4096, 2048 / 2000, 16 * 16),  # in whole narrow tiles
        (512, 512, 8192, 1.0, 8 * 8),  # wide ones would leave most processors empty
        (1024, 1024, 8192, 1.0, PROCESSORS),  # narrow ones fill the GPU once, and no more
    ],
)
def test_a_product_loses_by_depth_waves_and_padding(m, n, k, padded, tiles) -> None:
    waves = tiles / PROCESSORS
    speed = PEAK * 0.8 * waves / (waves + 0.5) * k / (k + 128)
    assert seconds(product(m, n, k)) == pytest.approx(2 * m * n * k * padded / speed)


def test_what_memory_bounds_takes_its_bytes() -> None:
    thin = product(8192, 64, 64)
    assert seconds(thin) == pytest.approx(2 * (8192 * 64 * 2 + 64 * 64) / (BANDWIDTH * 0.85))
    hidden = Tensor((64, 1024, 1024), "float16")
    add = Operator("aten.add.Tensor", "elementwise", "forward", (hidden, hidden), (hidden,), fused_bytes=hidden.bytes)
    assert seconds(add) == pytest.approx(3 * hidden.bytes / (BANDWIDTH * 0.7))
    assert seconds(add, fused=True) == pytest.approx(hidden.bytes / (BANDWIDTH * 0.7))


def test_the_backward_pass_of_a_norm_reads_gradient_and_input_twice() -> None:
    hidden, statistics = Tensor((64, 1024, 1024), "float16"), Tensor((64, 1024, 1), "float32")
    name = "aten.native_layer_norm_backward.default"
    norm = Operator(name, "normalisation", "backward", (hidden, hidden, statistics, statistics), (hidden,))
    assert seconds(norm) == pytest.approx((5 * hidden.bytes + 2 * statistics.bytes) / (BANDWIDTH * 0.7))


def test_convolutions_and_attention_are_products() -> None:
    image, weight, made = (Tensor(shape, "float16") for shape in ((8, 64, 32, 32), (128, 64, 3, 3), (8, 128, 16, 16)))
    forward = Operator("aten.convolution.default", "convolution", "forward", (image, weight), (made,))
    backward = Operator("aten.convolution_backward.default", "convolution", "backward", (made, image, weight), (image, weight))
    assert products_of(forward) == products_of(backward) == (1, 8 * 16 * 16, 128, 64 * 9)
    query, key = Tensor((2, 8, 512, 64), "float16"), Tensor((2, 8, 256, 64), "float16")
    sums = Tensor((2, 8, 512), "float32")
    attention = Operator("epochcast.attention", "attention", "forward", (query, key, key), (query, sums))
    gradient = Operator(
        "epochcast.attention_backward", "attention", "backward", (query, query, key, key, query, sums), (query, key, key)
    )
    assert products_of(attention) == products_of(gradient) == (16, 512, 256, 64)
