"""A model folder: written whole or not at all, read whole, or refused in one sentence."""

import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast import __version__
from epochcast.regressor import InputError, LatencyPredictor, model_folder
from epochcast.regressor.model_folder import ARRAYS, MANIFEST, require_place
from epochcast.regressor.paper_predictor import PaperManifest
from epochcast.regressor.predictor import SHIPPED, RegressorManifest


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "model"))


def change(folder: Path, **changes: Any) -> None:
    (folder / MANIFEST).write_text(json.dumps(json.loads((folder / MANIFEST).read_text()) | changes))


def make_huge(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.truncate(10**12)  # sparse: takes no room


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda folder: (folder / MANIFEST).unlink(), r"there is no model in .*train one with `epochcast fit regressor`"),
        (lambda folder: (folder / ARRAYS).unlink(), r"lacks arrays\.npz"),
        *(
            (lambda folder, text=text: (folder / MANIFEST).write_bytes(text), "is not JSON")
            for text in (b"", b"nul", b"\xff{", b"[" * 9**6)
        ),
        *((lambda folder, text=text: (folder / MANIFEST).write_text(text), "schema None") for text in ("[1]", "NaN", "{}")),
        (
            lambda folder: change(folder, schema="epochcast.regressor/v0", epochcast="9.0.0"),
            rf"/v0' \(epochcast 9\.0\.0, .*\); this version reads '{RegressorManifest.SCHEMA}': train it",
        ),
        (lambda folder: change(folder, training={}), r"model\.json in .* was changed after training \(its fingerprint"),
        (lambda folder: flip_a_bit(folder / ARRAYS), r"arrays\.npz in .* was changed after training"),
        (lambda folder: (folder / ARRAYS).write_bytes(b""), r"arrays\.npz in .* was changed after training"),
        *((lambda folder, name=name: make_huge(folder / name), "takes 1000000000000 bytes") for name in (MANIFEST, ARRAYS)),
    ],
)
def test_a_damaged_model_is_refused(model: Path, damage: Callable[[Path], object], says: str) -> None:
    damage(model)
    with pytest.raises(InputError, match=says):
        LatencyPredictor.load(model)


def test_arrays_that_would_not_be_read_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "_LIMIT", 100)
    with pytest.raises(InputError, match=r"takes \d+ bytes, more than 100; train again, on less data"):
        model_folder.save(tmp_path / "m", RegressorManifest, {"some": {"thing": np.arange(3)}})
    assert not list(tmp_path.iterdir())


def test_the_same_model_is_the_same_bytes_and_names_the_version_that_wrote_it(tmp_path: Path) -> None:
    stored = json.loads((SHIPPED / MANIFEST).read_text())
    state = {key: value for key, value in stored.items() if key not in model_folder.Manifest.model_fields}
    arrays = {"some": {"thing": np.arange(3)}}
    for folder in (tmp_path / "m", tmp_path / "n"):
        model_folder.save(folder, RegressorManifest, state | arrays)
    manifest, again = model_folder.load(tmp_path / "m", RegressorManifest)
    assert manifest.epochcast == __version__ and np.array_equal(again["some"]["thing"], arrays["some"]["thing"])
    for name in (MANIFEST, ARRAYS):
        assert (tmp_path / "m" / name).read_bytes() == (tmp_path / "n" / name).read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["m", "n"]


def test_saving_replaces_a_model_of_its_kind_and_nothing_else(
    tmp_path: Path, model: Path, predictor: LatencyPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r", `epochcast fit regressor`\); this version reads .*paper.*, or name another model"):
        model_folder.load(model, PaperManifest)
    with pytest.raises(InputError, match=r"exists but has no model of `epochcast fit regressor --pipeline paper`; name a new"):
        require_place(model, PaperManifest)
    change(model, schema="epochcast.regressor/v5")  # an older one is replaced, through a link, and where somebody stands
    for place in ("here", "mine"):
        (tmp_path / place).mkdir()
    (tmp_path / "link").symlink_to(model)
    predictor.save(tmp_path / "link")
    monkeypatch.chdir(tmp_path / "here")
    predictor.save(Path())
    assert (tmp_path / "link").is_symlink()
    assert all(LatencyPredictor.load(tmp_path / name).training == predictor.training for name in ("model", "here"))
    for other in (tmp_path / "mine" / "thesis.txt", tmp_path / "file"):
        other.write_text("x")
    for place in ("mine", "file"):
        with pytest.raises(InputError, match="has no model of `epochcast fit regressor`; name a new folder"):
            predictor.save(tmp_path / place)
    with pytest.raises(InputError, match="cannot write the model"):
        predictor.save(tmp_path / "file" / "below")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "here", "link", "mine", "model"]


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
