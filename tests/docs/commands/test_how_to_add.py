"""The pages on adding a GPU, a detection method and a predictor are followed to the letter: each touches what it says."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from ...my_gpu import MY_GPU
from ..pages import ROOT, Block, blocks

_EPOCHCAST = "from epochcast.analyzer.entry import main; raise SystemExit(main())"
_PROGRAMS = {"epochcast": ["-c", _EPOCHCAST], "python": [], "pytest": ["-m", "pytest", "-q", "-p", "no:cacheprovider"]}
# Of the checkout, what the pages neither change nor run.
_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "images", "node_modules", "site")


def of_page(name: str) -> list[Block]:
    return [block for block in blocks() if block.page == f"docs/how-to/{name}"]


def file_of(block: Block) -> str:
    """The last file that the paragraph above a block names."""
    above = (ROOT / block.page).read_text(encoding="utf-8").splitlines()[: block.line - 1]
    paragraph = re.split(r"\n```|\n\n", "\n".join(above))[-1]
    return re.findall(r"`([\w./-]+\.\w+)`", paragraph)[-1]


def write(block: Block, folder: Path) -> None:
    """Do with a file what its block says: make it, add to its end, or change the lines of a ``diff``."""
    path = folder / file_of(block)
    text = block.text
    if block.language == "diff":
        old, new = ("".join(line[1:] for line in text.splitlines(True) if line[0] in signs) for signs in (" -", " +"))
        before = path.read_text(encoding="utf-8")
        assert before.count(old) == 1, f"{block.where} does not fit {path.name}"
        text = before.replace(old, new)
    elif path.exists():
        text = path.read_text(encoding="utf-8") + text
    path.write_text(text, encoding="utf-8")


def run(command: str, folder: Path, path: Path, installed: str = "") -> str:
    """What a command prints in a folder, with the package of the checkout at ``path``."""
    program, *arguments = shlex.split(command)
    python_path = os.pathsep.join(filter(None, [installed, str(path / "src"), str(path)]))
    done = subprocess.run(
        [sys.executable, *_PROGRAMS[program], *arguments],
        cwd=folder if program == "epochcast" or "-m lab." in command else path,
        env={**os.environ, "PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{command!r} ends with {done.returncode}: {done.stdout[-1500:]}{done.stderr[-1500:]}"
    return done.stdout


def state(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> set[str]:
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository."""
    copy = tmp_path_factory.mktemp("checkout") / "repository"
    shutil.copytree(ROOT, copy, symlinks=True, ignore=_LEFT_OUT)
    return copy


def test_a_gpu_of_ones_own_is_the_file_that_the_commands_of_the_page_run_with() -> None:
    assert of_page("add-a-gpu.md")[0].text == MY_GPU


def test_a_gpu_is_one_file(checkout: Path, examples: Path) -> None:
    table, more = (block for block in of_page("add-a-gpu.md") if block.language == "toml")
    before = state(checkout)
    catalogue = checkout / file_of(more)
    catalogue.write_text(f"{catalogue.read_text(encoding='utf-8')}\n{table.text}{more.text}", encoding="utf-8")
    assert changed(before, state(checkout)) == {"regressor/gpus.toml"}
    (commands,) = (block.commands for block in of_page("add-a-gpu.md") if block.not_run)
    for command in commands:
        white_box = re.match(r"epochcast predict-model (\w+)", command)
        if white_box and not find_spec("torch"):
            continue
        said = run(command, examples, checkout)
        assert "My GPU" in said or command.startswith("pytest"), f"{command!r} prints {said}"
    gpu = json.loads(run("epochcast gpus --json", examples, checkout))["gpus"][-1]
    assert (gpu["name"], gpu["architecture"], gpu["tensor_cores"], gpu["max_warps_per_sm"]) == ("My GPU", "Ada", 400, 48)


def test_a_predictor_is_one_folder(tmp_path: Path) -> None:
    page = of_page("add-a-predictor.md")
    folder = tmp_path / "epochcast-staging"
    folder.mkdir()
    for block in page:
        if block.language in ("python", "toml", "csv"):
            write(block, folder)
    assert set(state(folder)) == {"staging.py", "pyproject.toml", "service.toml", "copies.csv"}
    installs, *_ = (block for block in page if block.is_commands)
    assert installs.commands == ["pip install ."]
    installed = tmp_path / "site-packages"
    offline = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(installed))
    subprocess.run([sys.executable, "-m", "pip", "install", *offline, "."], cwd=folder, check=True, timeout=300)
    shown = [block.text.removeprefix("$ ").split("\n", 1) for block in page if block.language == "text"]
    for command, printed in shown:
        assert run(command, folder, ROOT, str(installed)) == printed
    assert [command.split()[1] for command, _ in shown] == ["predict-model", "fit"]
    assert re.search(r"staging +Of epochcast-staging", run("epochcast predict-model --help", folder, ROOT, str(installed)))
