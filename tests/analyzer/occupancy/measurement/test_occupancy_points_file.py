"""The two files that grow: points, and the launches beside them."""

import gzip

import pandas as pd
import pytest

pytest.importorskip("torch")

from epochcast.analyzer.backends.occupancy.kernel_files import read_any as read_kernels
from epochcast.analyzer.backends.occupancy.kernel_files.kernel_file import occupancy_rows
from epochcast.analyzer.backends.occupancy.launch.kernel_table import kernel_table, summarise
from epochcast.analyzer.backends.occupancy.measurement.points_file import KernelsFile, _whole_members, points_file, workload
from epochcast.analyzer.backends.occupancy.points import read_points
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

PLACE = {"device": "NVIDIA H200", "software": "torch 2.13.0"}


def row(batch=16, **cells):
    sizes = {"channels": 3, "image_size": 224, "sequence": 0, "hidden": 0, "layers": 0, "precision": "fp32"}
    labels = {"family": "cnn", "gpu": "H200 SXM", "labels": "launch_config", "mean": 0.25, "time_mean": 0.3, "max": 1.0}
    return {"network": "resnet18", "batch": batch, **sizes, **labels, "kernels": 3, **cells}


def launches(blocks=528):
    """Three launches, two of them alike but for their duration."""
    sizes = {"grid_x": [blocks, blocks, 10], "block_x": [256, 256, 64], "registers_per_thread": [32, 32, 40]}
    ones = dict.fromkeys(("grid_y", "grid_z", "block_y", "block_z"), 1)
    names = ['void relu<4, {lambda()#1}>("a")', 'void relu<4, {lambda()#1}>("a")', "gemm"]
    return kernel_table(kernel=names, gpu="NVIDIA H200", **sizes, **ones, shared_memory=0, duration=[1e-5, 3e-5, 2e-6])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "points.csv"


def add(path, *rows):
    file, kernels = points_file(path, PLACE), KernelsFile(path)
    for one in rows:
        kernels.append(one, launches(one["batch"]))
        file.append(one)


def read(path):
    return read_kernels(KernelsFile(path).path)


def test_points_are_read_back_and_known_again(path):
    add(path, row(), row(20, nvml_utilisation=float("nan")))
    points = read_points(path)
    assert points["batch"].tolist() == [16, 20]
    assert points["nvml_utilisation"].isna().all()
    again = points_file(path, PLACE)
    assert row() in again
    for other in ({"batch": 24}, {"labels": "ncu"}, {"gpu": "T4"}, {"precision": "bf16"}, {"sequence": 3}):
        assert row(**other) not in again


def test_launches_alike_are_one_row_and_tell_the_same_occupancy(path):
    add(path, row(528))
    assert KernelsFile(path).path.name == "points.kernels.csv.gz"
    file = read(path)
    assert file.table["count"].tolist() == [2, 1]
    assert file.table["kernel"].tolist() == ['void relu<4, {lambda()#1}>("a")', "gemm"]
    assert file.table["workload"].unique().tolist() == [workload(row(528))]
    catalog = load_catalog()
    whole = kernel_table(**launches())
    found, expected = (summarise(occupancy_rows(one, "t", catalog)) for one in (file, type(file)("made", whole)))
    assert (found.grid, found.launches) == (expected.grid, expected.launches)
    assert found.seconds == pytest.approx(4.2e-5)


def test_a_workload_names_all_that_tells_rows_apart():
    names = [workload(row(**other)) for other in ({}, {"batch": 20}, {"labels": "ncu"}, {"precision": "bf16"}, {"channels": 1})]
    assert names[0] == "resnet18/batch=16/channels=3/image_size=224/precision=fp32/launch_config"
    assert len(set(names)) == len(names)


def test_a_torn_member_is_dropped(path):
    add(path, row())
    kernels = KernelsFile(path).path
    whole = kernels.read_bytes()
    add(path, row(20))
    torn = kernels.read_bytes()[len(whole) :]
    kernels.write_bytes(whole + torn[:60])
    table = read(path).table
    assert table["workload"].unique().tolist() == [workload(row())]
    add(path, row(24))
    assert read(path).table["workload"].nunique() == 2


def test_launches_without_a_point_are_dropped(path):
    add(path, row(), row(20))
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))  # stopped between the two files
    assert read(path).table["workload"].unique().tolist() == [workload(row())]
    add(path, row(20))
    assert read(path).table["count"].groupby(read(path).table["workload"]).sum().tolist() == [3, 3]


def test_the_first_member_may_be_the_torn_one(path):
    points_file(path, PLACE)
    KernelsFile(path).append(row(), launches())
    kernels = KernelsFile(path).path  # opened again: no point, so no launches
    assert not kernels.exists()
    kernels.write_bytes(gzip.compress(b"workload,gpu")[:12])
    KernelsFile(path)
    assert not kernels.exists()
    add(path, row())
    assert len(read(path).table) == 2


@pytest.mark.parametrize("content", [b"notes", gzip.compress(b"a,b\n1,2\n", mtime=0)])
def test_another_file_is_not_overwritten(path, content):
    add(path, row())
    kernels = KernelsFile(path).path
    kernels.write_bytes(content)
    with pytest.raises(InputError, match="holds no kernels of this command"):
        KernelsFile(path)
    assert kernels.read_bytes() == content


def test_where_it_cannot_be_written_is_said(path):
    points_file(path, PLACE)
    file = KernelsFile(path)
    file.path.mkdir()
    with pytest.raises(InputError, match="cannot write"):
        file.append(row(), launches())
    with pytest.raises(InputError, match="cannot continue"):
        KernelsFile(path)


def test_empty_cells_stand_for_what_is_not_a_number(path):
    add(path, row(step_s=float("nan")))
    assert pd.read_csv(path, dtype=str, keep_default_na=False)["step_s"].tolist() == [""]


def test_wherever_it_is_torn_the_whole_members_before_are_read():
    texts = ["workload,gpu\n", "a,H200\n" * 30, "b,H200\n"]
    members = [gzip.compress(text.encode()) for text in texts]
    content = b"".join(members)
    ends = [sum(map(len, members[:number])) for number in range(4)]
    for cut in range(len(content) + 1):
        whole = max(number for number in range(4) if ends[number] <= cut)
        assert _whole_members(content[:cut]) == ("".join(texts[:whole]), cut not in ends)
