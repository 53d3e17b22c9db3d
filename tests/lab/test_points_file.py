"""The table that `python -m lab.measure convmeter` writes row by row, and `epochcast fit convmeter` reads."""

import pytest

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, read_points
from epochcast.analyzer.errors import InputError

pytest.importorskip("torch")

from lab.convmeter.collection import points_file

PLACE = {"device": "Brand CPU, 3 GHz (1 thread)", "optimizer": "adam", "software": "torch 2.13.0"}


def row(network="resnet18", batch=4, **others):
    metrics = {name: 1e12 + number for number, name in enumerate(COLUMNS)}
    keys = {"precision": "fp32", "block": "", "family": "resnet", "image_size": 64, "devices": 1, "nodes": 1}
    return keys | metrics | {"network": network, "batch": batch, "inference_seconds": 0.1234567890123, "rounds": 5} | others


@pytest.fixture
def path(tmp_path):
    return tmp_path / "points.csv"


def test_a_file_is_continued_where_it_ended(path):
    first = points_file(path, PLACE)
    first.append(row())
    second = points_file(path, PLACE)
    assert second.rows == 1
    assert row() in second
    for other in ({"batch": 8}, {"block": "layer1"}, {"image_size": 32}, {"precision": "tf32"}, {"devices": 2}, {"nodes": 2}):
        assert row(**other) not in second
    second.append(row(batch=8))
    assert read_points(path)["batch"].tolist() == [4, 8]


@pytest.mark.parametrize("kept", [1, -1])
def test_a_torn_last_line_is_dropped(path, kept):
    file = points_file(path, PLACE)
    file.append(row())
    whole = path.read_text()
    file.append(row(batch=8))
    torn = path.read_text()[len(whole) :]
    path.write_text(whole + torn[:kept])
    again = points_file(path, PLACE)
    assert again.rows == 1
    assert row(batch=8) not in again
    assert path.read_text() == whole


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"notes", b"\xff\xfe\n"])
def test_another_file_is_not_overwritten(path, content):
    path.write_bytes(content)
    with pytest.raises(InputError, match="give another file"):
        points_file(path, PLACE)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"batch": 0}, "'batch' .* holds 0 in data row 1; give a number of 1 or more"),
        ({"devices": "two"}, "'devices' .* holds 'two' in data row 1"),
        ({"step_seconds": -0.5}, "'step_seconds' .* holds -0.5 in data row 1; give a number of 1e-09 or more"),
        ({"step_seconds": 1e-300}, "'step_seconds' .* holds 1e-300 in data row 1; give a number of 1e-09 or more"),
        ({"network": ""}, "'network' .* is empty in data row 1"),
        ({COLUMNS[-1]: ""}, f"'{COLUMNS[-1]}' .* is empty in data row 1; give a number of 0 or more"),
    ],
)
def test_cells_that_cannot_be_are_named(path, cells, said):
    points_file(path, PLACE).append(row() | cells)
    with pytest.raises(InputError, match=said):
        read_points(path)
