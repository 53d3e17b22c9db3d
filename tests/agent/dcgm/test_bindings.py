"""Finding DCGM's Python bindings, and what the agent uses of them."""

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from epochcast.agent.config import Config, Dcgm
from epochcast.agent.sources import dcgm_engine
from epochcast.common.errors import InputError

# What the agent uses of the bindings, read in DCGM's testing/python3 at 3.3 and 4.6.0 (72fa3fe): present in both.
CONTRACT = {
    "pydcgm": "DcgmHandle DcgmGroup DcgmFieldGroup",
    "agent": "dcgmEntitiesGetLatestValues dcgmGetGpuInstanceHierarchy dcgmGetLatestValues_v2 dcgmGetValuesSince_v2 "
    "dcgmProfGetSupportedMetricGroups",
    "fields": "DCGM_FE_GPU DCGM_FE_GPU_I",
    "structs": "DCGMError DCGM_FV_FLAG_LIVE_DATA DCGM_GROUP_DEFAULT DCGM_GROUP_DEFAULT_INSTANCES DCGM_GROUP_EMPTY "
    "DCGM_ST_CONNECTION_NOT_VALID DCGM_ST_LIBRARY_NOT_FOUND DCGM_ST_MODULE_NOT_LOADED DCGM_ST_NOT_SUPPORTED DCGM_ST_OK "
    "DCGM_ST_PROFILING_NOT_SUPPORTED c_dcgmFieldValue_v1 c_dcgmGroupEntityPair_t __file__",
}


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


def test_nothing_of_the_bindings_is_used_that_is_not_in_both_major_versions() -> None:
    used: dict[str, set[str]] = {name: set() for name in CONTRACT}
    for path in Path(str(dcgm_engine.__file__)).parent.glob("dcgm*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                owner = node.value
                name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
                if name in used:
                    used[name].add(node.attr)
    assert used == {name: set(members.split()) for name, members in CONTRACT.items()}
