"""Label tables of others: files that occupancy_bench.py's own functions wrote from launches made by hand."""

import gzip
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from epochcast.analyzer.backends.occupancy import label_files
from epochcast.analyzer.backends.occupancy.label_files import read_all, read_any
from epochcast.analyzer.backends.occupancy.points import COLUMNS
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog

MADE = Path(__file__).with_name("occupancy_bench")


@pytest.fixture
def bench(tmp_path):
    return Path(shutil.copytree(MADE, tmp_path / "bench"))


def edit(path, **columns):
    table = pd.read_csv(path)
    table.assign(**{name: change(table[name]) for name, change in columns.items()}).to_csv(path, index=False)


def test_measured_rows_in_base_units(bench):
    reading = read_all([bench])
    points = reading.points
    assert tuple(points.columns) == COLUMNS
    assert points["network"].tolist() == ["resnet18", "lstm", "bert", "clip_rn50"]
    assert set(points["gpu"]) == {"H200 SXM"}
    assert set(points["labels"]) == {"launch_config"}
    assert reading.left_out == {"out of memory": 1, "the network failed": 1}
    assert reading.notes == ()
    theirs = pd.read_csv(bench / "occupancy.csv").iloc[3]
    ours = points.iloc[3]
    assert (ours["batch"], ours["channels"], ours["image_size"], ours["sequence"]) == (32, 5, 224, 77)
    for name, percent in {"mean": "mean_grid", "time_mean": "timemean_grid", "max": "max_grid"}.items():
        assert ours[name] == pytest.approx(theirs[percent] / 100, abs=1e-6)
    assert ours["step_s"] == pytest.approx(theirs["iter_ms"] / 1000)
    assert ours["nvml_utilisation"] == pytest.approx(theirs["nvml_util"] / 100)
    assert ours["memory_bytes"] == theirs["peak_mib"] * 2**20


def test_labels_are_calculated_anew_from_the_launches(bench):
    before = read_any(bench)
    edit(bench / "occupancy.csv", mean_grid=lambda mean: mean + 5)
    reading = read_all([bench])
    pd.testing.assert_frame_equal(reading.points, before)
    (note,) = reading.notes
    assert "differ by up to 5.0 points" in note


def test_a_row_of_which_launches_are_missing_keeps_its_labels(bench):
    with gzip.open(bench / "kernels.csv.gz", "rt") as file:
        lines = file.read().splitlines(keepends=True)
    with gzip.open(bench / "kernels.csv.gz", "wt") as file:
        file.writelines(line for line in lines if not ("resnet18" in line and "reduce_kernel" in line))
    edit(bench / "occupancy.csv", mean_grid=lambda mean: mean + 5)
    means = read_any(bench)["mean"]
    theirs = pd.read_csv(bench / "occupancy.csv")["mean_grid"] / 100
    assert means[0] == pytest.approx(theirs[0])
    assert means[1] == pytest.approx(theirs[1] - 0.05, abs=1e-6)


def test_without_the_launches_the_file_s_own_labels_hold(bench):
    with_launches = read_any(bench)
    (bench / "kernels.csv.gz").unlink()
    pd.testing.assert_frame_equal(read_any(bench), with_launches, atol=1e-6)


def test_a_sweep_is_read_alike_and_gzip_too(bench):
    sweep = read_any(bench / "sweep.csv")
    assert sweep["batch"].tolist() == [128, 32]
    (bench / "sweep.csv.gz").write_bytes(gzip.compress((bench / "sweep.csv").read_bytes()))
    pd.testing.assert_frame_equal(read_any(bench / "sweep.csv.gz"), sweep)
    assert len(read_all([bench, bench / "sweep.csv"]).points) == 6


def test_what_ncu_counted_is_a_label_of_its_own(bench):
    reading = read_all([bench / "ncu.csv"])
    points = reading.points.set_index("network")
    assert set(points["labels"]) == {"ncu"}
    resnet = points.loc["resnet18"]
    assert resnet["mean"] == pytest.approx((0.285 + 0.7725 + 0.175) / 3)
    assert resnet["time_mean"] == pytest.approx((0.285 * 121 + 0.7725 * 31 + 0.175 * 12.5) / (121 + 31 + 12.5))
    assert (resnet["max"], resnet["kernels"]) == (0.7725, 3)
    assert resnet["step_s"] == read_any(bench).set_index("network").loc["resnet18", "step_s"]
    assert reading.left_out == {"its configuration is not in occupancy.csv": 1}


def test_the_gpu_may_be_named_where_the_file_does_not_tell_it(bench):
    (bench / "meta.json").unlink()
    with pytest.raises(InputError, match="is missing or names no GPU; name the GPU by --gpu"):
        read_any(bench)
    named = read_any(bench, gpu=load_catalog().resolve("H200"))
    pd.testing.assert_frame_equal(named, read_any(MADE))


def test_our_own_table_is_read_back(bench, tmp_path):
    points = read_any(bench)
    points.to_csv(tmp_path / "own.csv", index=False)
    pd.testing.assert_frame_equal(read_any(tmp_path / "own.csv"), points)
    named = read_any(tmp_path / "own.csv", gpu=load_catalog().resolve("A100 PCIe 40GB"))
    assert set(named["gpu"]) == {"A100 PCIe 40GB"}


def test_rows_of_several_gpus_are_not_taken_for_those_of_one(bench, tmp_path):
    points = read_any(bench)
    points.assign(gpu=["T4", "L4", "T4", "L4"]).to_csv(tmp_path / "own.csv", index=False)
    with pytest.raises(InputError, match="tells of 'L4' and 'T4', and --gpu would count all rows as 'A10'; leave it out"):
        read_any(tmp_path / "own.csv", gpu=load_catalog().resolve("A10"))


def without(path, column):
    pd.read_csv(path).drop(columns=column).to_csv(path, index=False)


def damage_meta(bench, content):
    (bench / "meta.json").write_text(content)


OTHER_GPU = json.dumps({"parts": {name: {"device": name, "compute_capability": "9.0"} for name in ("H200", "H100")}})


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda bench: (bench / "occupancy.csv").unlink(), "holds no occupancy.csv"),
        (lambda bench: (bench / "occupancy.csv").write_text(""), "is empty"),
        (lambda bench: (bench / "occupancy.csv").write_text("a,b\n1,2\n"), "has the columns a, b .* no known table of occ"),
        (lambda bench: without(bench / "occupancy.csv", "kernels"), "no known table of occ"),
        (lambda bench: without(bench / "occupancy.csv", "nvml_util"), "no known table of occ"),
        (
            lambda bench: edit(bench / "occupancy.csv", status=lambda status: status.str.replace("ok", "oom")),
            "no measured kernels",
        ),
        (lambda bench: edit(bench / "occupancy.csv", iter_ms=lambda ms: "soon"), "column 'iter_ms' .* holds 'soon'"),
        (lambda bench: damage_meta(bench, "[1, 2"), "is missing or names no GPU"),
        (lambda bench: damage_meta(bench, OTHER_GPU), "names several GPUs"),
        (lambda bench: (bench / "kernels.csv.gz").write_bytes(b"\x1f\x8b\x08"), "kernels.csv.gz"),
    ],
)
def test_damaged_files_are_one_sentence(bench, damage, said):
    damage(bench)
    with pytest.raises(InputError, match=said) as caught:
        read_any(bench)
    assert "\n" not in str(caught.value)


def test_ncu_needs_the_sizes_beside_it(bench):
    (bench / "occupancy.csv").rename(bench / "other.csv")
    with pytest.raises(InputError, match=r"put occupancy.csv of the same run beside it"):
        read_any(bench / "ncu.csv")
    (bench / "occupancy.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="is none of occupancy_bench"):
        read_any(bench / "ncu.csv")


def test_one_measurement_given_twice_is_refused(bench):
    with pytest.raises(InputError, match="stands in several of the files"):
        read_all([bench, bench / "occupancy.csv"])


def test_every_format_is_told_by_its_columns(bench):
    for path in (bench / "occupancy.csv", bench / "sweep.csv", bench / "ncu.csv"):
        table = pd.read_csv(path)
        assert sum(one.recognises(table) for one in label_files._FORMATS) == 1
