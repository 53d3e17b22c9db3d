"""Every line that installs, builds or deploys, on a page, in a comment or in a message, leads to what is there."""

import ast
import re
import runpy
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from ..pages import ROOT

ROOMS = ("agent", "analyzer", "common", "detector", "regressor", "src")


@cache
def extras() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])


@cache
def lines() -> tuple[tuple[str, str], ...]:
    """Lines of pages, comments and recipes that call one of these programs, each with its file."""
    command = [
        "git",
        "ls-files",
        "-co",
        "--exclude-standard",
        "--",
        "*.md",
        "deploy",
        "systemd",
        "dashboards",
        "Makefile",
        ".ci",
    ]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    files = [name for name in names if Path(name).suffix not in (".json", ".pyc") and not name.startswith("CHANGELOG")]
    texts = ((name, (ROOT / name).read_text(encoding="utf-8").replace("\\\n", "")) for name in files if (ROOT / name).is_file())
    programs = re.compile(r"(?:pipx?3? (?:install|wheel|inject|download)|make|docker|kubectl) ")
    return tuple((name, line.strip()) for name, text in texts for line in text.splitlines() if programs.search(line))


@pytest.mark.parametrize(
    ("pattern", "exists", "least"),
    [
        (r"(?:\.|\.whl|EXTRAS=\S*|epochcast)\[([\w,-]+)\]", lambda named: set(named.split(",")) <= extras(), 10),
        (r"(?:`|^|\$ )make ([a-z]+)\b", lambda name: f"\n{name}:" in (ROOT / "Makefile").read_text(encoding="utf-8"), 10),
        (r"(?:--file|--kustomize|kubectl \w+ -[fk]) ([\w./-]+)", lambda name: (ROOT / name).exists(), 3),
        (r"--target (\w+)", lambda stage: f" AS {stage}\n" in (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8"), 1),
        (
            r"(?:--requirement|--constraint| -[rc]) (requirements-\w+)\.txt",
            lambda name: name.split("-")[1] in runpy.run_path(str(ROOT / ".ci/release_files"))["PARTS"],
            1,
        ),
    ],
)
def test_what_an_install_line_names_is_there(pattern: str, exists: object, least: int) -> None:
    found = {(name, one) for name, line in lines() for one in re.findall(pattern, line)}
    assert len(found) >= least
    assert not [f"{name}: {one}" for name, one in sorted(found) if not exists(one)]  # type: ignore[operator]


def test_messages_name_extras_and_one_place_says_how_they_are_installed() -> None:
    """Users without an extra read ``how_to_install``; a sentence of a module's own could name an index."""
    named = set()
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert path.name == "extras.py" or not re.search(r"pip3? install|pipx install", text), (
            f"{path} says itself how to install"
        )
        for call in ast.walk(ast.parse(text)) if "how_to_install(" in text else ():
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "how_to_install":
                named |= {extra for one in call.args if isinstance(one, ast.Constant) for extra in one.value.split(",")}
    assert len(named) > 8 and not named - extras()
