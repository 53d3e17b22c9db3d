"""The project's own kernel tables: public Kineto kernels, where Kineto's estimate is at hand, and occupancy_bench's files."""

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

from epochcast.analyzer.backends.occupancy.kernel_files import KernelFile, read_any
from epochcast.analyzer.backends.occupancy.kernel_files.kernel_file import occupancy_rows
from epochcast.analyzer.backends.occupancy.launch.kernel_table import count_skipped, summarise
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

DEFAULT_LIMIT = 48 * 1024
"""Bytes of shared memory that a block has without opting in; Kineto asks CUDA's calculator as if no kernel did."""


@pytest.fixture(scope="module")
def kineto(shared_data: Path) -> pd.DataFrame:
    path = shared_data / "occupancy/kineto_kernels.csv.gz"
    if not path.exists():
        pytest.skip(f"no {path}")
    return occupancy_rows(read_any(path), str(path), load_catalog())


def test_agrees_with_kineto_wherever_kineto_says_more_than_0(kineto: pd.DataFrame) -> None:
    """Kineto writes whole percents: no row is further away than half of one, far within the required point."""
    said = kineto[(kineto["skipped"] == "") & (kineto["estimate"] > 0)]
    assert len(said) > 30_000
    assert (said["grid"] - said["estimate"]).abs().max() <= 0.005 + 1e-9


def test_where_kineto_says_0_it_is_right_on_tiny_grids_and_wrong_on_large_shared_memory(kineto: pd.DataFrame) -> None:
    zero = kineto[(kineto["skipped"] == "") & (kineto["estimate"] == 0)]
    tiny, large = zero[zero["shared_memory"] <= DEFAULT_LIMIT], zero[zero["shared_memory"] > DEFAULT_LIMIT]
    assert len(tiny) > 10_000 and len(large) > 3_000
    assert tiny["grid"].max() < 0.005
    assert (large["grid"] >= 0.005).mean() > 0.99  # the others' grids are tiny besides
    beyond = kineto[(kineto["skipped"] == "") & (kineto["shared_memory"] > DEFAULT_LIMIT)]
    assert (beyond["estimate"] == 0).all()


def test_rows_without_a_device_are_counted(kineto: pd.DataFrame) -> None:
    assert count_skipped(kineto) == {"gpu_not_known": int((kineto["gpu"] == "").sum())}


@pytest.mark.parametrize(
    ("gpu", "shape", "expected"),
    [
        # See test_launch_calculator.py for the arithmetic of these three.
        ("NVIDIA H100 80GB HBM3", (56, 2, 1, 384, 168, 231_424), 112 / 132 * 12 / 64),
        ("NVIDIA A100-SXM4-80GB", (64, 1, 3, 128, 96, 98_304), 4 / 64),
        ("NVIDIA A100-SXM4-80GB", (8, 1, 1, 128, 20, 0), 8 / 108 * 4 / 64),
    ],
)
def test_the_examples_worked_out_by_hand_stand_in_the_table(
    kineto: pd.DataFrame, gpu: str, shape: tuple[int, ...], expected: float
) -> None:
    names = ["grid_x", "grid_y", "grid_z", "block_x", "registers_per_thread", "shared_memory"]
    rows = kineto[(kineto["gpu"] == gpu) & (kineto[names] == list(shape)).all(axis=1)]
    assert len(rows) > 0
    assert (rows["estimate"] == 0).all()
    assert rows["grid"].to_numpy() == pytest.approx(expected)


KERNELS = "key,kernel,count,grid,block,regs,smem,mean_us,grid_pct,active_pct,limit_pct\n"
LIMITS = {
    "sms": 132,
    "warps": 64,
    "blocks": 32,
    "registers": 65536,
    "shared_memory": 233472,
    "reserved_per_block": 1024,
    "shared_unit": 128,
}
META = {
    "parts": {
        "sweep": {"problem": "it never started"},
        "profile": {"device": "NVIDIA H200", "compute_capability": "9.0", "limits": LIMITS},
    }
}


def _bench(folder: Path, *, meta: object = META) -> Path:
    """Two members of gzip, as a configuration after the other leaves them."""
    path = folder / "kernels.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write(KERNELS + "resnet50/b4,gemm {lambda()#1},3,56x2x1,384x1x1,168,231424,10.0,15.9091,18.75,18.75\n")
    with gzip.open(path, "at") as file:
        file.write("lstm/b8,add,100,1000x1x1,256x1x1,32,0,2.5,94.697,100.0,100.0\n")
    if meta is not None:
        (folder / "meta.json").write_text(json.dumps(meta))
    return path


def test_occupancy_bench_kernels(tmp_path: Path) -> None:
    path = _bench(tmp_path)
    file = read_any(path)
    assert file.table["workload"].tolist() == ["resnet50/b4", "lstm/b8"]
    assert file.table["kernel"].tolist() == ["gemm {lambda()#1}", "add"]
    assert file.table[["count", "duration"]].to_numpy().tolist() == [[3, 10e-6], [100, 2.5e-6]]
    rows = occupancy_rows(file, str(path), load_catalog())
    theirs = pd.read_csv(path)
    for name in ("grid", "active", "limit"):
        assert 100 * rows[name].to_numpy() == pytest.approx(theirs[f"{name}_pct"].to_numpy(), abs=1e-4)
    summary = summarise(rows)
    assert summary.launches == 103
    assert summary.grid.mean == pytest.approx((3 * rows["grid"][0] + 100 * rows["grid"][1]) / 103)


def test_occupancy_bench_ncu(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text(json.dumps(META))
    header = "key,index,kernel,grid,block,regs,smem,duration_us,achieved_pct,theoretical_pct,grid_pct,active_pct,limit_pct\n"
    lines = (
        "bert/b4,0,gemm,56x2x1,384x1x1,168,231424,10.5,17.9,18.75,15.9091,18.75,18.75\n"
        "bert/b4,1,add,8x1x1,128x1x1,0,0,2.0,6.1,,0.3788,6.25,100\n"
    )
    (tmp_path / "ncu.csv").write_text(header + lines)
    rows = occupancy_rows(read_any(tmp_path / "ncu.csv"), "ncu.csv", load_catalog())
    assert rows["achieved"].tolist() == pytest.approx([0.179, 0.061])
    assert rows["limit"][0] == pytest.approx(rows["theoretical"][0])
    assert rows["skipped"].tolist() == ["", "no_launch_configuration"]  # 0 registers: ncu did not read them


@pytest.mark.parametrize("meta", [None, [], {"parts": {"profile": {"device": "x86_64", "limits": LIMITS}}}])
def test_without_its_meta_json_the_gpu_has_to_be_named(tmp_path: Path, meta: object) -> None:
    path = _bench(tmp_path, meta=meta)
    file = read_any(path)
    assert isinstance(file, KernelFile) and not file.limits
    with pytest.raises(InputError, match="name it with --gpu"):
        occupancy_rows(file, str(path), load_catalog())
    rows = occupancy_rows(file, str(path), load_catalog(), load_catalog().resolve("H200 SXM"))
    assert rows["grid"].notna().all()


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("", "has no rows"),
        ("a,k,1,56x2,384x1x1,168,0,10,1,1,1\n", "column 'grid' of .* holds '56x2'"),
        ("a,k,1,56x2x1,384x1x1,many,0,10,1,1,1\n", "column 'regs' of .* holds 'many'"),
    ],
)
def test_bad_tables_are_refused(tmp_path: Path, row: str, says: str) -> None:
    (tmp_path / "kernels.csv").write_text(KERNELS + row)
    with pytest.raises(InputError, match=says):
        read_any(tmp_path / "kernels.csv")


def test_a_table_that_lacks_a_column_is_refused(tmp_path: Path) -> None:
    header = "key,index,kernel,grid,block,regs,smem,duration_us,achieved_pct,grid_pct\n"
    (tmp_path / "ncu.csv").write_text(header + "bert/b4,0,gemm,56x2x1,384x1x1,168,231424,10.5,17.9,15.9\n")
    with pytest.raises(InputError, match=r"no profile that can be read \(it has the columns key, index"):
        read_any(tmp_path / "ncu.csv")
