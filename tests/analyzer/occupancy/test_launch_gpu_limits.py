"""Limits of GPUs: they follow from the compute capability, and a user's own GPU needs only what it must."""

from dataclasses import replace
from pathlib import Path

import pytest

from epochcast.analyzer.backends.occupancy.modelled_kernels.occupancy import limits_by_capability, limits_of
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from epochcast.regressor.gpus import Gpu

from ...my_gpu import MY_GPU


def _mine(folder: Path, capability: float = 8.9, more: str = "") -> Gpu:
    (folder / "mine.toml").write_text(MY_GPU.replace("8.9", str(capability)) + more)
    return load_catalog(folder / "mine.toml").resolve("my gpu")


def test_another_vendors_gpu_has_no_limits_of_cuda() -> None:
    with pytest.raises(InputError, match="GPU 'MI300X' is made by AMD; occupancy is calculated for NVIDIA's GPUs only"):
        limits_of(load_catalog()["MI300X"])


def test_a_gpu_of_ones_own_needs_no_limits(tmp_path: Path) -> None:
    limits = limits_of(_mine(tmp_path))
    assert limits == replace(limits_of(load_catalog().resolve("L40S")), name="My GPU", sm_count=100)


@pytest.mark.parametrize("more", ["max_warps_per_sm = 40", "max_threads_per_sm = 1280"])
def test_its_own_figures_take_the_place_of_the_tables(tmp_path: Path, more: str) -> None:
    limits = limits_of(_mine(tmp_path, more=f"{more}\nmax_blocks_per_sm = 20\nshared_memory_per_sm = 65_536"))
    assert (limits.max_warps, limits.max_blocks, limits.shared_memory) == (40, 20, 65_536)


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'My GPU' has compute capability 2\.0; occupancy is calculated for 3\.5, 3\.7"):
        limits_of(_mine(tmp_path, capability=2.0))
    with pytest.raises(InputError, match="0 SMs"):
        limits_by_capability("GPU", 8.0, 0)
