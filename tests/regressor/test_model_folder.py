"""A model folder: read whole, or refused in one sentence."""

import json
import resource
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.regressor import InputError, LatencyPredictor, model_folder
from epochcast.regressor.model_folder import ARRAYS, MANIFEST, require_place
from epochcast.regressor.paper_predictor import PaperManifest
from epochcast.regressor.predictor import SHIPPED, RegressorManifest


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "model"))


def manifest_of(folder: Path) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return stored


def read(folder: Path) -> RegressorManifest:
    return model_folder.load(folder, RegressorManifest)[0]


def test_another_version_is_named(model: Path) -> None:
    other = manifest_of(model) | {"schema": "epochcast.regressor/v9", "epochcast": "9.0.0"}
    (model / MANIFEST).write_text(json.dumps(other))
    with pytest.raises(
        InputError, match=rf"regressor/v9'; this version reads '{RegressorManifest.SCHEMA}', .* \(epochcast 9\.0\.0 wrote it\)"
    ):
        read(model)


@pytest.mark.parametrize("text", ["", "{", "nul", "\0", "[1]", "NaN"])
def test_what_is_no_manifest(model: Path, text: str) -> None:
    (model / MANIFEST).write_text(text)
    with pytest.raises(InputError, match=r"train .* again"):
        read(model)


def test_bytes_that_are_no_text(model: Path) -> None:
    (model / MANIFEST).write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(InputError, match="is not JSON"):
        read(model)


@pytest.mark.parametrize("name", [MANIFEST, ARRAYS])
def test_a_huge_file_is_refused_unread(model: Path, name: str) -> None:
    with (model / name).open("r+b") as file:
        file.truncate(10**12)  # sparse: takes no room
    with pytest.raises(InputError, match="takes 1000000000000 bytes, more than"):
        read(model)


def test_a_value_that_was_changed_is_noticed(model: Path) -> None:
    (model / MANIFEST).write_text(json.dumps(manifest_of(model) | {"training": {}}))
    with pytest.raises(InputError, match=r"model\.json in .* was changed after training \(its fingerprint differs\)"):
        read(model)


def test_another_shape_under_the_same_schema_is_named(tmp_path: Path) -> None:
    model_folder.save(tmp_path / "m", RegressorManifest, {"recipe": 3}, {})
    with pytest.raises(InputError, match=r"of another version of epochcast \(recipe: .*\); train it again"):
        read(tmp_path / "m")


def test_arrays_that_would_not_be_read_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "_LIMIT", 100)
    with pytest.raises(InputError, match=r"takes \d+ bytes, more than 100; train again, on less data"):
        model_folder.save(tmp_path / "m", RegressorManifest, {}, {"some": {"thing": np.arange(3)}})
    assert not list(tmp_path.iterdir())


def test_the_manifest_names_the_version_that_wrote_it(tmp_path: Path) -> None:
    from epochcast import __version__

    state = {key: value for key, value in manifest_of(SHIPPED).items() if key not in model_folder.Manifest.model_fields}
    arrays = {"some": {"thing": np.arange(3)}}
    for folder in (tmp_path / "m", tmp_path / "n"):
        model_folder.save(folder, RegressorManifest, state | {"schema": RegressorManifest.SCHEMA}, arrays)
    assert read(tmp_path / "m").epochcast == __version__
    assert np.array_equal(model_folder.load(tmp_path / "m", RegressorManifest)[1]["some"]["thing"], arrays["some"]["thing"])
    for name in (MANIFEST, ARRAYS):  # the same model, the same bytes
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "n" / name).read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m", "n"]


def test_a_model_of_another_kind_is_neither_read_nor_replaced(model: Path, tmp_path: Path, predictor: LatencyPredictor) -> None:
    before = (model / MANIFEST).read_bytes()
    with pytest.raises(
        InputError, match=r"was written by `epochcast fit regressor`, but a model of .* paper` is needed: name an"
    ):
        model_folder.load(model, PaperManifest)
    with pytest.raises(
        InputError, match=r"was written by `.* --pipeline paper`, but a model of `epochcast fit regressor` is needed"
    ):
        (tmp_path / "paper").mkdir()
        (tmp_path / "paper" / MANIFEST).write_text(
            json.dumps({"schema": PaperManifest.SCHEMA, "command": PaperManifest.COMMAND})
        )
        read(tmp_path / "paper")
    with pytest.raises(InputError, match=r"exists but has no model of `epochcast fit regressor --pipeline paper`; name a new"):
        require_place(model, PaperManifest)
    (model / MANIFEST).write_text(json.dumps(manifest_of(model) | {"schema": "epochcast.regressor/v5"}))
    predictor.save(model)  # an older one is
    assert (model / MANIFEST).read_bytes() != before and LatencyPredictor.load(model).training == predictor.training


def test_a_full_disk_leaves_the_old_model_and_nothing_else(tmp_path: Path, model: Path) -> None:
    """A real limit on the size of files; EFBIG comes where ENOSPC would, to the next write."""
    before = {file.name: file.read_bytes() for file in model.iterdir()}
    predictor = LatencyPredictor.load(model)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name in (ARRAYS, MANIFEST):
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before[name]) // 2, hard))
        try:
            with pytest.raises(InputError, match=r"^cannot write .*File too large"):
                predictor.save(model)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert {file.name: file.read_bytes() for file in model.iterdir()} == before
        assert [file.name for file in tmp_path.iterdir()] == ["model"]
