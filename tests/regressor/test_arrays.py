import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from epochcast.regressor import InputError, arrays
from epochcast.regressor.arrays import load_arrays, part, save_arrays, under

SPEC = {"points": (np.float64, ("m", 3)), "weights": (np.float64, ("m",)), "names": (np.int32, (2,))}
GOOD = {"points": np.arange(12.0).reshape(4, 3), "weights": np.ones(4), "names": np.array([1, 2], dtype=np.int32)}


def read(path: Path) -> dict[str, np.ndarray]:
    return load_arrays(path.read_bytes(), path.name)


def test_round_trip_is_exact_and_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        save_arrays(tmp_path / name, GOOD)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    loaded = part(under("p", read(tmp_path / "a.npz")), "p", SPEC)
    assert list(loaded) == list(SPEC)
    assert all(np.array_equal(loaded[name], GOOD[name]) and loaded[name].dtype == GOOD[name].dtype for name in GOOD)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": np.zeros((4, 2))}, r"'p.points' in .* is float64 of shape \(4, 2\), not float64 of shape \(m, 3\)"),
        ({"points": np.zeros(12)}, r"of shape \(12,\)"),
        ({"weights": np.ones(5)}, r"'p.weights' in .* of shape \(5,\), not float64 of shape \(m\)"),
        ({"weights": np.ones(4, dtype=np.float32)}, "'p.weights' in .* is float32"),
        ({"names": np.array([1, 2, 3], dtype=np.int32)}, r"not int32 of shape \(2\)"),
        ({"weights": np.array([1, 2, np.nan, 4])}, "not finite"),
        ({"weights": np.array([1, 2, -np.inf, 4])}, "not finite"),
        ({"more": np.ones(1)}, "holds an unexpected array 'p.more'"),
    ],
)
def test_other_arrays_are_refused(changes: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(InputError, match=message):
        part(under("p", GOOD | changes), "p", SPEC)


def test_a_missing_array_is_named() -> None:
    others = under("p", {"points": GOOD["points"], "names": GOOD["names"]}) | {"q.weights": GOOD["weights"]}
    with pytest.raises(InputError, match=r"lacks the array 'p\.weights'"):
        part(others, "p", SPEC)
    assert list(part(others, "q")) == ["weights"] and not part(others, "r")


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    save_arrays(tmp_path / "whole.npz", GOOD)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:-100])
    (tmp_path / "text.npz").write_text("no arrays")
    np.savez(tmp_path / "pickle.npz", **(GOOD | {"names": np.array([{}], dtype=object)}))
    for file in ("cut.npz", "text.npz", "pickle.npz"):
        with pytest.raises(InputError, match=f"model file {file} cannot be read; train the model again"):
            read(tmp_path / file)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", points=np.zeros(arrays.LIMIT // 8 + 1))
    assert (tmp_path / "bomb.npz").stat().st_size < 1_000_000
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("the bomb was unpacked"))
    with pytest.raises(InputError, match=f"bytes, more than {arrays.LIMIT}"):
        read(tmp_path / "bomb.npz")


def test_an_array_that_claims_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**14,)})
    with zipfile.ZipFile(tmp_path / "claim.npz", "w") as archive:
        archive.writestr("points.npy", header.getvalue() + b"\0" * 64)
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "claim.npz")


def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "LIMIT", 100)
    with pytest.raises(InputError, match=r"a\.npz would take 136 bytes, more than 100; train on less data"):
        save_arrays(tmp_path / "a.npz", GOOD)
    assert not (tmp_path / "a.npz").exists()
