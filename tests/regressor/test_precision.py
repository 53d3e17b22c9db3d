import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.regressor import Catalog, Profile
from epochcast.regressor.precision import (
    Precision,
    arithmetic_rate,
    likely_precisions,
    overall_flop_utilization,
    precision_of,
    tensor_cores_idle,
)
from epochcast.regressor.profile import METRICS, STATISTICS
from epochcast.regressor.profile_json import profile_json, read_profile
from epochcast.regressor.summary import summarise


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


# FLOP/s over the peak in each precision by the data sheet: the program counted its products.
@pytest.mark.parametrize(
    ("block", "peak", "idle"),
    [
        ("fp16_8192", 989e12, False),  # clock reduced by the power cap to 1.41 GHz, as in the next three
        ("bf16_8192", 989e12, False),
        ("tf32_8192", 495e12, False),
        ("fp8_8192", 1979e12, False),
        ("bf16_1024", 989e12, False),  # too small to fill the GPU, at the full clock
        ("bf16_8192_half", 989e12, False),  # half of the time
        ("fp32_8192", None, True),  # without TF32 no tensor core works
        ("copy", None, False),  # SMs as busy as with a product, and no arithmetic
        ("held_idle", None, False),
    ],
)
def test_ofu_is_the_share_of_the_peak_that_an_h200_reached(
    root: Path, catalog: Catalog, block: str, peak: float | None, idle: bool
) -> None:
    trace = pd.read_parquet(root / "data/h200/agent/products.parquet")
    mark = json.loads((root / "data/h200/agent/products.json").read_text())["blocks"][block]
    metrics = {name: trace[name].to_numpy() for name in METRICS if name in trace}
    # The first half second is the rise.
    profile = summarise("H200 SXM", trace["time"], metrics, [(mark["start"] + 0.5, mark["end"])])
    reached = 0.0 if peak is None else mark["operations"] * mark["count"] / (mark["end"] - mark["start"]) / peak
    assert overall_flop_utilization(profile, catalog["H200 SXM"]) == pytest.approx(reached, abs=0.03)
    assert tensor_cores_idle(profile, catalog["H200 SXM"]) is idle


def test_ofu_to_the_digit(catalog: Catalog) -> None:
    # A tenth of a second each; the clock is read at the first sample and the third.
    metrics = {"tensor_active": [0.5, 0.7, 0.2, np.nan], "sm_clock": [0.705e9, np.nan, 1.41e9, np.nan]}
    profile = summarise("A100 SXM4 80GB", [0.0, 0.1, 0.2, 0.3], metrics, [])
    assert profile.tensor_clock == pytest.approx((0.5 * 0.705e9 + 0.7 * 0.705e9 + 0.2 * 1.41e9) / 3)
    assert overall_flop_utilization(profile, catalog["A100 SXM4 80GB"]) == pytest.approx((0.25 + 0.35 + 0.2) / 3)
    assert read_profile(profile_json(profile)) == profile


@pytest.mark.parametrize(
    "metrics", [{"gr_engine_active": [0.9]}, {"tensor_active": [0.5]}, {"sm_clock": [1e9], "sm_active": [1.0]}]
)
def test_ofu_is_not_guessed(catalog: Catalog, metrics: dict[str, list[float]]) -> None:
    profile = summarise("A100 SXM4 80GB", [0.0], metrics, [])
    assert overall_flop_utilization(profile, catalog["A100 SXM4 80GB"]) is None
    assert not tensor_cores_idle(profile, catalog["A100 SXM4 80GB"])
