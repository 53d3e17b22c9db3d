from collections.abc import Callable

import pytest

from epochcast.regressor import Catalog, Profile
from epochcast.regressor.precision import Precision, arithmetic_rate, likely_precisions, precision_of
from epochcast.regressor.profile import STATISTICS


def activity(**means: float) -> dict[str, dict[str, float]]:
    return {name: dict.fromkeys(STATISTICS, mean) | {"std": 0.0} for name, mean in means.items()}


@pytest.mark.parametrize(
    ("gpu", "precision", "flops"),
    [
        ("V100 SXM2 16GB", "tf32", 1.567e13),  # no TF32 there: FP32
        ("V100 SXM2 16GB", "mixed", 1.25e14),
        ("A100 SXM4 40GB", "fp32", 1.949e13),
        ("A100 SXM4 40GB", "tf32", 1.56e14),
        ("A100 SXM4 40GB", "fp8", 3.12e14),  # no FP8 there: as mixed
        ("H100 SXM5", "fp8", 1.979e15),
        ("P100 PCIe 16GB", "mixed", 1.905e13),  # twice FP32, without tensor cores
        ("GTX 1080 Ti", "mixed", 1.134e13),  # its half precision is a 64th of FP32
    ],
)
def test_arithmetic_rate(catalog: Catalog, gpu: str, precision: Precision, flops: float) -> None:
    assert arithmetic_rate(catalog[gpu], precision) == pytest.approx(flops, rel=0.001)


@pytest.mark.parametrize(
    ("gpu", "metrics", "expected"),
    [
        ("V100 SXM2 16GB", {"tensor_active": 0.4}, {"mixed": 1.0}),
        ("V100 SXM2 16GB", {"tensor_active": 0.0}, {"tf32": 1.0}),  # FP32 code: TF32 on an A100
        ("A100 SXM4 40GB", {"tensor_active": 0.0}, {"fp32": 1.0}),
        ("A100 SXM4 40GB", {"tensor_active": 0.4}, {"tf32": 0.5, "mixed": 0.5}),
        ("A100 SXM4 40GB", {"tensor_active": 0.4, "fp16_active": 0.1}, {"mixed": 1.0}),
        ("A100 SXM4 40GB", {"gpu_utilization": 0.9}, {"tf32": 0.5, "mixed": 0.5}),
        ("A100 SXM4 40GB", {"gpu_utilization": 0.9, "fp16_active": 0.1}, {"mixed": 1.0}),
        ("A100 SXM4 40GB", {"gpu_utilization": 0.9, "fp32_active": 0.5, "fp16_active": 0.0}, {"tf32": 0.5, "mixed": 0.5}),
        ("K80", {"gpu_utilization": 0.9}, {"tf32": 1.0}),
    ],
)
def test_precision_shows_in_telemetry(
    catalog: Catalog, make_profile: Callable[..., Profile], gpu: str, metrics: dict[str, float], expected: dict[str, float]
) -> None:
    profile = make_profile(gpu, metrics=activity(**metrics))
    assert likely_precisions(profile, catalog[gpu])[0] == expected


def test_what_is_declared_counts(catalog: Catalog, make_profile: Callable[..., Profile]) -> None:
    profile = make_profile("V100 SXM2 16GB", metrics=activity(tensor_active=0.4), precision="fp32")
    assert likely_precisions(profile, catalog["V100 SXM2 16GB"]) == ({"fp32": 1.0}, "declared")


@pytest.mark.parametrize(
    ("word", "precision"),
    [
        ("amp", "mixed"),
        ("bf16-mixed", "mixed"),
        ("FP32", "tf32"),
        ("32-true", "tf32"),
        ("fp8", "fp8"),
        ("int4", None),
        (None, None),
    ],
)
def test_words_of_training_scripts(word: str | None, precision: Precision | None) -> None:
    assert precision_of(word) == precision
