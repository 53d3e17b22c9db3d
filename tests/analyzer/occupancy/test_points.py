"""The table of occupancies: what is accepted, and how each cell that cannot be is refused."""

import gzip

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.points import COLUMNS, LABELS, check_points, configurations, read_points
from epochcast.analyzer.errors import InputError
from epochcast.regressor import InputError as UnknownGpu


def row(**cells):
    sizes = {"batch": 16, "channels": 3, "image_size": 224, "sequence": 0, "hidden": 0, "layers": 0, "precision": "fp32"}
    place = {"family": "cnn", "gpu": "NVIDIA H200", "labels": "launch_config"}
    figures = {"mean": 0.25, "time_mean": 0.5, "max": 0.75, "kernels": 69, "step_s": 0.004, "nvml_utilisation": 0.97}
    return {"network": "resnet18", **sizes, **place, **figures, "memory_bytes": 7e8, **cells}


def table(*rows):
    return pd.DataFrame([*rows, row(batch=20)])


def test_types_and_names_are_made_alike():
    points = check_points(table(row(gpu=" h200 ", notes="mine", batch="16")), "t.csv")
    assert tuple(points.columns) == COLUMNS
    assert points["gpu"].tolist() == ["H200 SXM", "H200 SXM"]
    assert points["batch"].dtype == np.int64
    assert list(configurations(points)) == [
        Configuration("resnet18", 16, 3, 224),
        Configuration("resnet18", 20, 3, 224),
    ]


@pytest.mark.parametrize("name", ["step_s", "nvml_utilisation", "memory_bytes"])
def test_what_was_not_measured_may_lack(name):
    assert np.isnan(check_points(table(row(**{name: None})), "t.csv")[name].iloc[0])
    assert check_points(table(row()).drop(columns=name), "t.csv")[name].isna().all()


@pytest.mark.parametrize("other", [{"labels": "ncu"}, {"gpu": "A100 PCIe 40GB"}, {"precision": "fp16"}, {"image_size": 96}])
def test_rows_that_differ_in_what_tells_them_apart_are_kept(other):
    assert len(check_points(table(row(), row(**other)), "t.csv")) == 3


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"mean": 46.4, "max": 90.0}, "column 'mean' of 't.csv' holds 46.4 in row 1; .* divide percentages by 100"),
        ({"time_mean": -0.1}, "column 'time_mean' .* holds -0.1 in row 1; it is a ratio from 0 to 1$"),
        ({"mean": None}, "column 'mean' .* is empty in row 1"),
        ({"max": 0.1}, "column 'mean' .* holds 0.25 in row 1; a mean is at most the maximum"),
        ({"mean": "much"}, "column 'mean' .* holds 'much'"),
        ({"nvml_utilisation": 97}, "column 'nvml_utilisation' .* holds 97.0 .* divide percentages by 100"),
        ({"batch": 0}, "column 'batch' .* holds 0.0 in row 1; give a whole number of 1 or more"),
        ({"batch": 16.5}, "column 'batch' .* holds 16.5"),
        ({"network": "  "}, "column 'network' .* is empty in row 1"),
        ({"labels": "measured"}, f"column 'labels' .* holds 'measured' in row 1; labels are {', '.join(LABELS)}"),
        ({"step_s": 0}, "column 'step_s' .* give a number above 0 or leave it empty"),
        ({"batch": 20}, "the same configuration twice: 'resnet18' at batch 20 on 'H200 SXM', again in row 2"),
    ],
)
def test_cells_that_cannot_be_are_named(cells, said):
    with pytest.raises(InputError, match=said):
        check_points(table(row(**cells)), "t.csv")


def test_an_unknown_gpu_is_refused_with_candidates():
    with pytest.raises(UnknownGpu, match="unknown GPU 'RTX 6000'; did you mean 'RTX 6000 Ada'"):
        check_points(table(row(gpu="RTX 6000")), "t.csv")


def test_tables_that_are_none(tmp_path):
    with pytest.raises(InputError, match="lacks the column 'time_mean'"):
        check_points(table(row()).drop(columns="time_mean"), "t.csv")
    with pytest.raises(InputError, match="no row below its header"):
        check_points(table().iloc[:0], "t.csv")
    with pytest.raises(InputError, match="no such table of occupancies"):
        read_points(tmp_path / "nothing.csv")
    (tmp_path / "empty.csv").write_text("\n")
    with pytest.raises(InputError, match="is empty; give a table"):
        read_points(tmp_path / "empty.csv")


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz"])
def test_files_are_read_as_they_were_written(tmp_path, name):
    text = table(row(network="1e3")).to_csv(index=False).encode()  # a name that looks like a number
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    points = read_points(tmp_path / name)
    assert points["network"].tolist() == ["1e3", "resnet18"]
    assert points["mean"].tolist() == [0.25, 0.25]
