"""The data sheet's lower bound of an operator's time."""

import pytest

from epochcast.analyzer.backends.distributed.graph import Operator, Tensor
from epochcast.analyzer.backends.distributed.operator_time.roofline import Roofline
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

A100, P100 = (load_catalog()[name] for name in ("A100 PCIe 40GB", "P100 PCIe 16GB"))


def product(m: int, n: int, k: int, dtype: str = "float32") -> Operator:
    inputs = Tensor((m, k), dtype), Tensor((k, n), dtype)
    return Operator("aten.mm.default", "matmul", "forward", inputs, (Tensor((m, n), dtype),), flops=2.0 * m * n * k)


def test_a_large_product_is_bound_by_the_peak_and_a_thin_one_by_memory() -> None:
    large, thin = Roofline(A100).seconds([product(4096, 4096, 4096), product(8192, 1, 8192)])
    assert large == pytest.approx(2 * 4096**3 / 19.5e12)
    assert thin == pytest.approx(4 * (8192 * 8192 + 2 * 8192) / 1555e9)


def test_tensor_cores_count_for_tf32_and_half_precision() -> None:
    full, half = product(4096, 4096, 4096), product(4096, 4096, 4096, "bfloat16")
    assert Roofline(A100, tf32=True).seconds([full])[0] == pytest.approx(2 * 4096**3 / 156e12)
    assert Roofline(A100).seconds([half])[0] == pytest.approx(2 * 4096**3 / 312e12)


def test_communication_takes_no_time_here() -> None:
    reduced = Operator("all_reduce", "communication", "forward", (Tensor((1024,), "float32"),), ())
    assert Roofline(A100).seconds([reduced]).tolist() == [0.0]


def test_a_gpu_without_the_dtype_is_refused() -> None:
    with pytest.raises(InputError, match="no bfloat16 arithmetic"):
        Roofline(P100).seconds([product(64, 64, 64, "bfloat16")])
