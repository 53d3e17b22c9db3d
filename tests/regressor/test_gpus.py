import json
import math
import tempfile
from dataclasses import MISSING, fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochcast.regressor import Catalog, Gpu, InputError, load_catalog
from epochcast.regressor.gpus import FIGURES

from ..my_gpu import MY_GPU

GPUS = list(load_catalog().values())


def _disagreements(gpu: Gpu) -> list[str]:
    """Which of a GPU's figures contradict each other; those it does not say contradict nothing."""
    held = [
        ("FP32 rate", gpu.fp32_flops, 2 * gpu.cuda_cores * gpu.boost_clock),
        ("memory clock and bus", gpu.memory_bandwidth, _times(2 / 8, gpu.memory_clock, gpu.memory_bus_width)),
        ("threads and warps", gpu.max_threads_per_sm, _times(32, gpu.max_warps_per_sm)),
    ]
    wrong = [what for what, one, other in held if None not in (one, other) and one != pytest.approx(other, rel=0.03)]
    if gpu.cuda_cores % gpu.sm_count:
        wrong.append("cores and SMs")
    if gpu.base_clock is not None and gpu.base_clock >= gpu.boost_clock:
        wrong.append("clocks")
    return wrong


def _times(factor: float, *figures: float | None) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return factor * math.prod(known) if len(known) == len(figures) else None


def test_figures_agree_with_each_other_and_say_where_they_come_from() -> None:
    """A source is required for more figures than a GPU needs."""
    needed = {field.name for field in fields(Gpu) if field.default is MISSING}
    for gpu in GPUS:
        assert not _disagreements(gpu), gpu.name
        known = {figure for figure in FIGURES if getattr(gpu, figure) is not None}
        assert set(gpu.unverified) <= known, gpu.name
        assert gpu.source or known <= needed, gpu.name


def test_every_name_and_alias_resolves_to_its_gpu(catalog: Catalog) -> None:
    for gpu in catalog.values():
        for name in (gpu.name, gpu.nvml_name or gpu.name, *gpu.aliases):
            assert catalog.resolve(name) is gpu


def test_dual_issue_lanes_give_no_credit(catalog: Catalog) -> None:
    a10g, p4, h100 = catalog["A10G"], catalog["P4"], catalog["H100 SXM5"]
    assert a10g.effective_flops == 2 * 64 * 80 * 1.71e9
    # Pascal's and Hopper's 128 lanes are whole ones.
    assert p4.effective_flops == 2 * p4.cuda_cores * p4.boost_clock
    assert h100.effective_flops == 2 * h100.cuda_cores * h100.boost_clock


def test_user_adds_and_replaces_a_gpu(tmp_path: Path) -> None:
    extra = tmp_path / "mine.toml"
    extra.write_text(MY_GPU + MY_GPU.replace("My GPU", "T4"))
    catalog = load_catalog(extra)
    assert catalog.resolve("my-gpu").sm_count == 100
    assert catalog["T4"].sm_count == 100
    assert catalog.resolve("g4dn") is catalog.resolve("Tesla T4") is catalog["T4"]
    assert set(catalog) == {*load_catalog(), "My GPU"}


def test_what_follows_from_the_compute_capability_is_filled_in(tmp_path: Path) -> None:
    extra = tmp_path / "mine.toml"
    extra.write_text(
        f"{MY_GPU}{MY_GPU.replace('My', 'Cut')}tensor_cores = 300\n{MY_GPU.replace('My', 'Their')}vendor = 'AMD'\n"
    )
    mine, cut, theirs = (load_catalog(extra)[f"{whose} GPU"] for whose in ("My", "Cut", "Their"))
    assert (mine.architecture, mine.tensor_cores, mine.max_warps_per_sm, mine.shared_memory_per_sm) == ("Ada", 400, 48, 102_400)
    assert (cut.tensor_cores, cut.max_warps_per_sm) == (300, 48)
    assert (theirs.architecture, theirs.tensor_cores, theirs.max_warps_per_sm) == (None, None, None)


def test_a_gpu_in_the_place_of_ours_keeps_its_names_and_what_no_data_sheet_has(tmp_path: Path) -> None:
    extra = tmp_path / "mine.toml"
    extra.write_text(MY_GPU.replace("My GPU", "H100 SXM5"))
    gpu = load_catalog(extra).resolve("nvidia-h100-80gb")
    assert (gpu.sm_count, gpu.skypilot_name, gpu.power_sampled) == (100, "H100", 0.25)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[gpu", "is not TOML"),
        ("gpu = 3", r"holds no \[\[gpu\]\]"),
        (MY_GPU.replace("tdp = 300", ""), "lacks tdp"),
        (MY_GPU.replace("sm_count = 100", "sm_count = 0"), "sm_count is 0; input should be greater than 0"),
        (MY_GPU.replace("sm_count = 100", 'sm_count = "100"'), "sm_count is '100'; input should be a valid integer"),
        (MY_GPU.replace("sm_count = 100", "sm_count = nan"), "sm_count is nan"),
        (MY_GPU.replace("sm_count = 100", f"sm_count = {10**400}"), "sm_count is 1000"),
        (MY_GPU + "sm_counts = 3", "unknown key 'sm_counts'; did you mean 'sm_count'"),
        (MY_GPU + 'aliases = "x"', "aliases is 'x'; input should be a valid"),
        (MY_GPU + 'aliases = ["g5"]', "'g5' means both 'A10G' and 'My GPU'"),
        (MY_GPU + MY_GPU, "holds GPU 'My GPU' twice"),
        (MY_GPU.replace("My GPU", "NVIDIA"), "the name 'NVIDIA' has no letter"),
        (MY_GPU + 'aliases = ["显卡"]', "the name '显卡' has no letter"),
        (MY_GPU.replace("My GPU", "Tesla T4"), "the name 'Tesla T4' means both 'T4' and 'Tesla T4'"),
        (MY_GPU.replace("sm_count = 100", "sm_count = 99.5"), "sm_count is 99.5; input should be a valid integer"),
        (MY_GPU.replace("12_800", "100").replace("sm_count = 100", "sm_count = 4_000"), "an SM has 8 to 512 cores"),
    ],
)
def test_bad_gpu_file(tmp_path: Path, text: str, message: str) -> None:
    extra = tmp_path / "mine.toml"
    extra.write_text(text)
    with pytest.raises(InputError, match=message) as refusal:
        load_catalog(extra)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("right", "wrong", "remedy"),
    [
        ("boost_clock = 2.4e9", "boost_clock = 2400", "looks like MHz, multiply by 1e+06"),
        ("boost_clock = 2.4e9", "boost_clock = 2.4", "looks like GHz, multiply by 1e+09"),
        ("memory = 34_359_738_368", "memory = 32", "looks like GiB, multiply by 1.07374e+09"),
        ("memory = 34_359_738_368", "memory = 32_768", "looks like MiB"),
        ("memory_bandwidth = 9.0e11", "memory_bandwidth = 900", "looks like GB/s, multiply by 1e+09"),
        ("memory_bandwidth = 9.0e11", "memory_bandwidth = 3.35", "looks like TB/s"),
        ("tdp = 300", "tdp = 0.3", "looks like kW, multiply by 1,000"),
        ("tdp = 300", "tdp = 300_000", "looks like mW, multiply by 0.001"),
        ("compute_capability = 8.9", "compute_capability = 89", "looks like the form 86, multiply by 0.1"),
        ("tdp = 300", "tdp = 300\nfp16_tensor_flops = 165", "looks like TFLOP/s"),
        ("tdp = 300", "tdp = 300\npcie_gen = 400", "outside 1 to 64; check the source"),
    ],
)
def test_a_figure_in_another_unit_is_refused_with_the_factor(tmp_path: Path, right: str, wrong: str, remedy: str) -> None:
    extra = tmp_path / "mine.toml"
    extra.write_text(MY_GPU.replace(right, wrong))
    with pytest.raises(InputError) as refusal:
        load_catalog(extra)
    assert remedy in str(refusal.value)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(FIGURES), st.floats() | st.integers() | st.booleans() | st.text(max_size=3))
def test_any_value_of_any_figure_is_taken_or_refused_in_a_sentence(figure: str, value: object) -> None:
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else json.dumps(value)
    text = text.replace("Infinity", "inf").replace("NaN", "nan").replace("\\ud", "\\u0")
    lines = [line for line in MY_GPU.splitlines() if not line.startswith(f"{figure} =")]
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write("\n".join([*lines, f"{figure} = {text}"]))
        file.flush()
        try:
            gpu = load_catalog(Path(file.name))["My GPU"]
        except InputError as error:
            assert "\n" not in str(error)
        else:
            assert np.isfinite(gpu.effective_flops) and gpu.effective_flops > 0


def test_missing_gpu_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the GPU file"):
        load_catalog(tmp_path / "none.toml")
