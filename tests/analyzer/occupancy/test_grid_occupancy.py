"""The occupancy calculation on 707 recorded launches, and limits of GPUs: a user's own needs only what it must."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.occupancy.modelled import CONFIGURATION, grid_occupancy, limits_by_capability, limits_of
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


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'My GPU' has compute capability 2\.0; occupancy is calculated for 3\.5, 3\.7"):
        limits_of(_mine(tmp_path, capability=2.0))
    with pytest.raises(InputError, match="0 SMs"):
        limits_by_capability("GPU", 8.0, 0)


def test_launches_of_an_h200_as_its_recording_has_them(root: Path) -> None:
    recorded = pd.read_csv(root / "data/h200/occupancy_bench/kernels.csv.gz")
    sides = [recorded[column].str.split("x", expand=True).astype(float) for column in ("grid", "block")]
    table = pd.concat([*sides, recorded[["regs", "smem"]]], axis=1).set_axis(list(CONFIGURATION), axis=1)
    h200 = limits_of(load_catalog().resolve("H200 SXM"))
    assert (100 * grid_occupancy(table, h200)).tolist() == pytest.approx(recorded["grid_pct"].tolist(), abs=1e-3)
    cannot = table.head(4).copy()
    cannot.iloc[range(4), [3, 6, 7, 0]] = (2048, 256, 2**20, np.nan)  # threads, registers, shared memory, a missing side
    assert grid_occupancy(cannot, h200).isna().sum() == 4
