"""Every line that installs, builds or deploys, on a page, in a comment or in a message, leads to what is there.

That is: a path of the checkout, an extra of pyproject.toml, a file that `make release` makes, a target of the Makefile.
"""

import ast
import re
import runpy
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from ..pages import ROOT, blocks, line_at, pages

PROGRAMS = ("pip", "pip3", "pipx", "make", "docker", "kubectl", ".ci/run", ".ci/release")
_START = re.compile(rf"(?:sudo )?(?:\S*/)?(?:python3? -m )?(?:{'|'.join(map(re.escape, PROGRAMS))}) \S")
_FENCED = re.compile(r"^ *```.*?^ *```[ \t]*$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`([^`]+)`")
ROOMS = ("agent", "analyzer", "common", "detector", "regressor", "src")
# Packages of others that pages install by name: not in any extra of ours.
OTHERS = {"s3fs"}
_NAME = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[\w,-]+\])?")
_OPTIONS_WITH_A_VALUE = {"--find-links", "--wheel-dir", "--python", "--dest"}


@cache
def project() -> dict[str, object]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])


@cache
def packages() -> set[str]:
    """What our extras install, and theirs, by the names in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {line.partition("==")[0].lower().replace("_", "-") for line in lines if "==" in line} | {"torch"}


@cache
def release_files() -> set[str]:
    parts = runpy.run_path(str(ROOT / ".ci/release_files"))["PARTS"]
    return {f"requirements-{part}.txt" for part in parts}


@cache
def lines() -> tuple[tuple[str, str], ...]:
    """Where each line is, and the command: of pages blocks and what is in backticks, of other files comments and recipes."""
    found = [(block.where, command) for block in blocks() if block.is_commands for command in block.commands]
    for page in pages():
        if not page.is_relative_to(ROOT / "docs/decisions") and page.name != "CHANGELOG.md":
            text = _FENCED.sub(lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"))
            found += [(f"{page.relative_to(ROOT)}:{line_at(text, at.start())}", at[1]) for at in _INLINE.finditer(text)]
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", "deploy", "systemd", "dashboards", "Makefile", ".ci"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    for path in (ROOT / name for name in listed.stdout.split()):
        if path.suffix not in (".json", ".pyc"):
            text = path.read_text(encoding="utf-8")
            comments = re.finditer(r"^# +(.*)$|`([^`\n]+)`", text, re.MULTILINE)
            found += [(f"{path.relative_to(ROOT)}:{line_at(text, at.start())}", at[1] or at[2]) for at in comments]
    one_line = ((where, " ".join(command.split())) for where, command in found)
    return tuple((where, command) for where, command in one_line if _START.match(command))


def problems(command: str) -> Iterator[str]:
    """What of a command leads nowhere."""
    words = shlex.split(re.sub(r"[…:,]+(?= |$)", " ", command), comments=True)
    words = words[1:] if words[0] == "sudo" else words
    words = words[2:] if words[1:2] == ["-m"] else words
    program, words = Path(words[0]).name, words[1:]
    if program in ("pip", "pip3", "pipx"):
        yield from _of_pip(words)
    elif program == "make":
        yield from _of_make(words)
    elif program in ("docker", "kubectl"):
        yield from _of_files(words)


def _of_pip(words: list[str]) -> Iterator[str]:
    verb, words = words[0], words[1:]
    if verb not in ("install", "wheel", "inject", "download"):
        return
    if verb == "inject":
        words = words[1:]  # the environment's name
    while words:
        word, words = words[0], words[1:]
        if word in ("--requirement", "-r", "--constraint", "-c"):
            file, words = words[0], words[1:]
            if Path(file).name not in release_files() and not (ROOT / file).is_file():
                yield f"{file} is neither in the checkout nor of a release"
        elif word in _OPTIONS_WITH_A_VALUE:
            words = words[1:]
        elif not word.startswith("-"):
            yield from _of_requirement(word)


def _of_requirement(word: str) -> Iterator[str]:
    path, _, extras = word.removesuffix("]").partition("[")
    if "/" in path or path == "." or path.endswith(".whl"):
        of_extras = {one for one in extras.split(",") if one}
        if unknown := of_extras - set(project()["optional-dependencies"]):  # type: ignore[call-overload]
            yield f"there is no extra {', '.join(sorted(unknown))}"
        wheel = f"{project()['name']}-{project()['version']}-py3-none-any.whl"
        if path.endswith(".whl") and Path(path).name != wheel:
            yield f"a release makes {wheel}, not {Path(path).name}"
    elif not (name := _NAME.fullmatch(word)) or name["name"].lower() not in packages() | OTHERS:
        yield f"{word} is no package of others that we install, and ours is in no index"


def _of_make(words: list[str]) -> Iterator[str]:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for word in words:
        name, is_variable, value = word.partition("=")
        if is_variable:
            if name == "EXTRAS":
                yield from _of_requirement(f".[{value}]")
        elif re.fullmatch("[a-z]+", name) and name not in targets:
            yield f"the Makefile has no target {name}"


def _of_files(words: list[str]) -> Iterator[str]:
    """Of docker and kubectl: files and folders of the checkout; stages of our Dockerfile."""
    for option, value in pairwise(words):
        if option in ("--file", "--kustomize", "-f", "-k") and value != "." and not (ROOT / value).exists():
            yield f"there is no {value} in the checkout"
        if option == "--target":
            stages = re.findall(r"^FROM .* AS (\S+)$", (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
            if value not in stages:
                yield f"deploy/Dockerfile has no stage {value}"


def test_every_install_line_leads_somewhere() -> None:
    programs = {Path(shlex.split(command.removeprefix("sudo "))[0]).name for _, command in lines()}
    assert len(lines()) > 60 and programs >= {"pip", "pipx", "make", "docker", "kubectl"}
    wrong = [f"{where}: {command!r}: {problem}" for where, command in lines() for problem in problems(command)]
    assert not wrong, "\n".join(wrong)


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
    assert len(named) > 8 and not named - set(project()["optional-dependencies"])  # type: ignore[call-overload]
