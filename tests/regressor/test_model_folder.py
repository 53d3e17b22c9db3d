"""A model folder from someone else: read whole and sane, or refused in one sentence."""

import json
import math
import os
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from epochcast.regressor import Catalog, InputError, LatencyPredictor, Profile, model_folder
from epochcast.regressor.manifest import PaperManifest, Parameters, RegressorManifest
from epochcast.regressor.model_folder import ARRAYS, MANIFEST, checked, is_kind, require_place
from epochcast.regressor.predictor import SHIPPED
from epochcast.regressor.recipes.default import DefaultRecipe

from ..model_forgery import arrays_of, forge, manifest_of, signed

Path_ = tuple[str | int, ...]
WRONG = [None, -1, 10**30, math.nan, "x", "é" * 5000, [[]], {"x": 1}]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "model"))


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return manifest_of(SHIPPED)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped model with few trees and few points of each process: as good for forging, and read in a moment."""
    folder = Path(shutil.copytree(SHIPPED, tmp_path_factory.mktemp("cut") / "model"))
    arrays = arrays_of(SHIPPED)
    nodes = arrays["forest.roots"][3]
    for name, array in arrays.items():
        if name.startswith("forest."):
            arrays[name] = array[:3] if name == "forest.roots" else array[:nodes]
        elif name.startswith("processes."):
            # The first rows and columns of a Cholesky factor are one too.
            arrays[name] = array[:10, :10] if name.endswith(".factor") else array[:10]
    forge(folder, arrays=arrays)
    return folder


@pytest.fixture
def small(tmp_path: Path, cut: Path) -> Path:
    return Path(shutil.copytree(cut, tmp_path / "small"))


def places(value: object, at: Path_ = ()) -> Iterator[Path_]:
    """Every key of a JSON value; below the top, of many alike the first and the last."""
    items: list[tuple[str | int, object]] = list(value.items()) if isinstance(value, dict) else []
    items = list(enumerate(value)) if isinstance(value, list) else items
    for key, inner in items if not at or len(items) < 7 else [items[0], items[-1]]:
        yield (*at, key)
        yield from places(inner, (*at, key))


def forged(manifest: dict[str, Any], place: Path_, **to: object) -> dict[str, Any]:
    """A copy with one value replaced by ``to``, or deleted."""
    copy: Any = dict(manifest)
    inner = copy
    for key in place[:-1]:
        inner[key] = inner[key].copy()
        inner = inner[key]
    if to:
        inner[place[-1]] = to["to"]
    else:
        del inner[place[-1]]
    return copy  # type: ignore[no-any-return]


def changed(manifest: dict[str, Any], place: Path_, **to: object) -> dict[str, Any]:
    """The same, signed."""
    return signed(forged(manifest, place, **to))


def read(folder: Path) -> RegressorManifest:
    return model_folder.load(folder, RegressorManifest)[0]


def is_one_sentence(error: pytest.ExceptionInfo[InputError] | InputError) -> bool:
    text = str(error.value if isinstance(error, pytest.ExceptionInfo) else error)
    return 0 < len(text) < 600 and "\n" not in text and "again" in text


def test_every_forged_value_is_refused_or_harmless(
    small: Path, manifest: dict[str, Any], catalog: Catalog, make_profile: Callable[..., Profile]
) -> None:
    """Below the top the check of the content decides alone: only what it lets pass is written and read."""
    profiles = [make_profile("T4", busy=0.6), make_profile("H100 SXM5", metrics={}, feature_set="none")]
    manifest = manifest_of(small)
    tried = refused = 0
    for place in places({key: value for key, value in manifest.items() if key != "fingerprint"}):
        for change in ({}, *({"to": wrong} for wrong in WRONG)):
            tried += 1
            value = forged(manifest, place, **change)
            try:
                if len(place) > 1:
                    checked(json.dumps(value), MANIFEST, RegressorManifest)
                (small / MANIFEST).write_text(json.dumps(signed(value)))
                predictor = LatencyPredictor.load(small, catalog)
            except InputError as error:
                refused += 1
                assert is_one_sentence(error), (place, change, str(error))
                continue
            for profile in profiles:
                for one in predictor.predict(profile, ["A10G", "H100 SXM5"]):
                    assert 0 < one.ratio_low <= one.ratio <= one.ratio_high < math.inf, (place, change)
                    assert one.why and 0 <= one.support <= 1
    assert refused > 0.9 * tried > 500


FORGED: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "zeros": np.zeros_like,
    "negative": np.negative,
    "tiny": lambda array: np.full_like(array, 1e-30),
    "huge": lambda array: np.full_like(array, 1e30 if array.dtype.kind == "f" else 10_000),
}


@pytest.mark.parametrize("forgery", FORGED)
@pytest.mark.parametrize("part", ["speeds", "forest", "processes", "columns"])
def test_every_forged_array_is_refused_or_harmless(
    small: Path, catalog: Catalog, make_profile: Callable[..., Profile], part: str, forgery: str
) -> None:
    arrays = arrays_of(small)
    whole = make_profile("T4", busy=0.6)
    incomplete = make_profile("T4", metrics={"gpu_utilization": whole.metrics["gpu_utilization"]})
    names = [name for name in arrays if re.fullmatch(rf"{part}\.(0\.)?[a-z_]+", name)]  # of numbered ones the first
    assert names
    for name in names:
        forge(small, arrays=arrays | {name: FORGED[forgery](arrays[name])})
        try:
            predictor = LatencyPredictor.load(small, catalog)
        except InputError as error:
            assert is_one_sentence(error), (name, str(error))
            continue
        for profile in (whole, incomplete, make_profile("H100 SXM5")):
            for one in predictor.predict(profile, ["A10G", "A100 SXM4 40GB"]):
                assert 0 < one.ratio_low <= one.ratio <= one.ratio_high < math.inf, name


def test_an_array_that_is_missing_is_named(small: Path, catalog: Catalog) -> None:
    arrays = arrays_of(small)
    for name in ("speeds.mean", "forest.skip", "processes.0.points", "columns.scale"):
        forge(small, arrays={key: array for key, array in arrays.items() if key != name})
        with pytest.raises(InputError, match=f"the model lacks the array '{re.escape(name)}'; train the model again"):
            LatencyPredictor.load(small, catalog)


@pytest.mark.parametrize(
    ("place", "to", "message"),
    [
        (
            ("intervals", "speeds", "multiple"),
            "wide",
            r"model\.json in .*: intervals\.speeds\.multiple is 'wide' \(input should be",
        ),
        (("intervals", "speeds"), None, r"intervals\.speeds is None"),
        (("arrays",), "0" * 63, r"arrays is '0"),
        (("parameters", "depth"), 3, r"parameters\.depth is 3 \(extra inputs are not permitted\)"),
        (("training", "fingerprint"), "0" * 63, r"training\.fingerprint is '0"),
        (("command",), "", r"command is ''"),
    ],
)
def test_the_refusal_names_the_value(model: Path, manifest: dict[str, Any], place: Path_, to: object, message: str) -> None:
    (model / MANIFEST).write_text(json.dumps(changed(manifest, place, to=to)))
    with pytest.raises(InputError, match=message):
        read(model)


def test_another_version_is_named(model: Path, manifest: dict[str, Any]) -> None:
    other = changed(manifest, ("schema",), to="epochcast.regressor/v9") | {"epochcast": "9.0.0"}
    (model / MANIFEST).write_text(json.dumps(other))
    with pytest.raises(
        InputError, match=rf"regressor/v9'; this version reads '{RegressorManifest.SCHEMA}', .* \(epochcast 9\.0\.0 wrote it\)"
    ):
        read(model)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, '{"a":' * 100_000, "1" * 5000, "nul", "\0", '"\\ud800"', "[1]", "NaN"]
)
def test_what_is_no_manifest(model: Path, text: str) -> None:
    (model / MANIFEST).write_text(text)
    with pytest.raises(InputError) as refusal:
        read(model)
    assert is_one_sentence(refusal)


def test_bytes_that_are_no_text(model: Path) -> None:
    (model / MANIFEST).write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(InputError, match="is not JSON"):
        read(model)


@pytest.mark.parametrize("name", [MANIFEST, ARRAYS])
def test_huge_files_pipes_and_folders_are_refused_unread(model: Path, name: str) -> None:
    file = model / name
    with file.open("r+b") as open_file:
        open_file.truncate(10**12)  # sparse: takes no room
    with pytest.raises(InputError, match="takes 1000000000000 bytes, more than"):
        read(model)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InputError, match="is not a plain file"):
        read(model)
    file.unlink()
    file.mkdir()
    with pytest.raises(InputError, match="is not a plain file"):
        read(model)


def test_a_link_is_followed_but_its_content_must_be_the_one_signed(model: Path, tmp_path: Path) -> None:
    (model / ARRAYS).rename(tmp_path / "elsewhere.npz")
    (model / ARRAYS).symlink_to(tmp_path / "elsewhere.npz")
    assert read(model).schema_ == RegressorManifest.SCHEMA
    (tmp_path / "elsewhere.npz").write_bytes(b"other")
    with pytest.raises(InputError, match=r"arrays\.npz in .* was changed after training"):
        read(model)


def test_the_manifest_names_the_version_that_wrote_it(tmp_path: Path, manifest: dict[str, Any]) -> None:
    from epochcast import __version__

    state = {key: value for key, value in manifest.items() if key not in model_folder.Manifest.model_fields and key != "schema"}
    arrays = {"some.thing": np.arange(3)}
    model_folder.save(tmp_path / "m", RegressorManifest, state, arrays)
    assert read(tmp_path / "m").epochcast == __version__
    assert np.array_equal(model_folder.load(tmp_path / "m", RegressorManifest)[1]["some.thing"], arrays["some.thing"])
    state["intervals"] = {}
    with pytest.raises(InputError, match=r"model\.json: intervals is {}"):
        model_folder.save(tmp_path / "n", RegressorManifest, state, arrays)
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_a_model_of_another_kind_is_neither_read_nor_replaced(model: Path, tmp_path: Path, predictor: LatencyPredictor) -> None:
    before = (model / MANIFEST).read_bytes()
    assert is_kind(model, RegressorManifest) and not is_kind(model, PaperManifest)
    with pytest.raises(
        InputError, match=r"was written by `epochcast fit regressor`, but a model of .* paper` is needed: name an"
    ):
        model_folder.load(model, PaperManifest)
    with pytest.raises(
        InputError, match=r"was written by `.* --recipe paper`, but a model of `epochcast fit regressor` is needed"
    ):
        (tmp_path / "paper").mkdir()
        (tmp_path / "paper" / MANIFEST).write_text(
            json.dumps({"schema": PaperManifest.SCHEMA, "command": PaperManifest.COMMAND})
        )
        read(tmp_path / "paper")
    with pytest.raises(InputError, match=r"exists but has no model of `epochcast fit regressor --recipe paper`; name a new"):
        require_place(model, PaperManifest)
    forge(model, {**manifest_of(model), "schema": "epochcast.regressor/v5"})
    predictor.save(model)  # an older one is
    assert (model / MANIFEST).read_bytes() != before and LatencyPredictor.load(model).training == predictor.training


def test_the_schema_knows_every_hyper_parameter() -> None:
    assert set(Parameters.model_fields) == set(DefaultRecipe().get_params())


def test_a_full_disk_leaves_the_old_model_and_nothing_else(tmp_path: Path, model: Path) -> None:
    """A real limit on the size of files; EFBIG comes where ENOSPC would, to the next write."""
    before = {file.name: file.read_bytes() for file in model.iterdir()}
    predictor = LatencyPredictor.load(model)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name in (ARRAYS, MANIFEST):
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before[name]) // 2, hard))
        try:
            with pytest.raises(InputError, match=r"^cannot write the model to .*: File too large$"):
                predictor.save(model)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert {file.name: file.read_bytes() for file in model.iterdir()} == before
        assert [file.name for file in tmp_path.iterdir()] == ["model"]
