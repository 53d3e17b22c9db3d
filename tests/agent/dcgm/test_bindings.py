"""Finding DCGM's Python bindings."""

import sys
from pathlib import Path
from typing import Any

import pytest

from epochcast.agent.config import Config, Dcgm
from epochcast.agent.sources import dcgm_engine
from epochcast.common.errors import InputError


def test_without_bindings(open_dcgm: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DCGM_BINDINGS", raising=False)
    monkeypatch.setattr(dcgm_engine, "PLACES", (tmp_path / "v4", tmp_path / "v3"))
    with pytest.raises(InputError, match=r"finds no DCGM Python bindings \(pydcgm.py\) in .*v4, .*v3; install DCGM"):
        open_dcgm()
    monkeypatch.setenv("DCGM_BINDINGS", str(tmp_path))
    with pytest.raises(InputError, match=r"\$DCGM_BINDINGS names .* which has no pydcgm.py"):
        open_dcgm()
    with pytest.raises(InputError, match=r"dcgm.bindings names .* which has no pydcgm.py"):
        open_dcgm(Config(dcgm=Dcgm(bindings=tmp_path)))


def test_bindings_that_cannot_be_imported(open_dcgm: Any, bindings: Path, tmp_path: Path) -> None:
    (tmp_path / "pydcgm.py").write_text("import a_module_that_nobody_has\n")
    with pytest.raises(InputError, match=r"cannot be imported .*a_module_that_nobody_has"):
        open_dcgm(Config(dcgm=Dcgm(bindings=tmp_path)))


def test_the_bindings_come_last_on_the_path_and_the_newest_place_first(
    bindings: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DCGM_BINDINGS")
    monkeypatch.setattr(dcgm_engine, "PLACES", (bindings, tmp_path))
    (tmp_path / "pydcgm.py").write_text("raise RuntimeError('DCGM 3 although there is DCGM 4')\n")
    before = [*sys.path]
    dcgm_engine.load_bindings(None)
    assert sys.path == [*before, str(bindings)]
