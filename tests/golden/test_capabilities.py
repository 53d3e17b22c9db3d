"""What capabilities.toml lists is there: each command with its options, and the test or script that shows it."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ..docs.commands.test_options import problems

CAPABILITIES = tomllib.loads(Path(__file__).with_name("capabilities.toml").read_text(encoding="utf-8"))["capability"]
NOT_HERE = {"by hand", "needs a GPU", "needs a cluster"}


def test_each_has_a_name_of_its_own() -> None:
    names = [one["name"] for one in CAPABILITIES]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda one: one["name"])
def test_a_capability_is_there_and_shown(capability: dict[str, Any], root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    program, *words = shlex.split(capability["command"])
    if program.startswith("epochcast"):
        assert list(problems(capability["command"])) == []
    elif program == "python":
        module = words[1].replace(".", "/") if words[0] == "-m" else words[0]
        assert (root / module).exists() or (root / f"{module}.py").exists()
    elif program == "docker":
        assert (root / words[words.index("--file") + 1]).is_file()
    elif program == "kubectl":
        assert (root / words[words.index("--kustomize") + 1] / "kustomization.yaml").is_file()
    else:
        assert program == "make" and re.search(rf"^{words[0]}:", makefile, re.MULTILINE)
    shown_by = capability["shown_by"]
    if shown_by == "make bench":
        assert re.search(rf"\s{words[1].removeprefix('benchmarks.')}\b", makefile)
    else:
        assert shown_by in NOT_HERE or (root / shown_by).exists()
