"""What is released: a wheel and a source distribution with all that the rooms hold and nothing else, and an agent that runs."""

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement

from .example_files import write_example_files
from .processes import Process, Program, free_port

ROOMS = ("agent", "analyzer", "common", "dashboards", "detector", "regressor", "systemd")
# Of dashboards/, for who works on them.
LEFT_OUT = {"definitions", "provisioning"}
PROJECT_FILES = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml")
# What Python and its tools leave behind in folders that they have seen.
LEFT_BEHIND = ("__pycache__", "*.egg-info", "*.pyc", "catboost_info")


class Released(NamedTuple):
    """The two files of a release."""

    wheel: Path
    source: Path


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=300, **options)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done


@pytest.fixture(scope="module")
def tree(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is packed, which nobody works on meanwhile."""
    copy = tmp_path_factory.mktemp("tree")
    # The tests too, which the source distribution must leave out.
    for name in (*ROOMS, "src", "tests"):
        shutil.copytree(root / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_BEHIND))
    for name in PROJECT_FILES:
        shutil.copy(root / name, copy / name)
    return copy


def _build(tree: Path, out: Path, *options: str) -> None:
    """Build in another copy: setuptools leaves folders behind in the tree that it builds from."""
    pytest.importorskip("build")
    shutil.copytree(tree, out / "source", symlinks=True)
    env = {"SOURCE_DATE_EPOCH": "1700000000", **os.environ}
    build = (sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check")
    run(*build, *options, "--outdir", out, out / "source", env=env)


@pytest.fixture(scope="module")
def released(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Released:
    """The files in $EPOCHCAST_DIST (``make release`` sets it), else the source distribution of this tree and its wheel."""
    given = os.environ.get("EPOCHCAST_DIST")
    if given is None:
        folder = tmp_path_factory.mktemp("dist")
        _build(tree, folder)
    else:
        folder = Path(given)
    (wheel,) = folder.glob("*.whl")
    (source,) = folder.glob("*.tar.gz")
    return Released(wheel, source)


@pytest.fixture(scope="module")
def packed(tree: Path) -> set[str]:
    """Every file that the package is made of, by its name in the wheel."""
    paths = (path for room in ROOMS for path in (tree / room).rglob("*"))
    names = {f"epochcast/{path.relative_to(tree)}" for path in paths if path.is_file() and not LEFT_OUT & set(path.parts)}
    return names | {f"epochcast/{path.name}" for path in (tree / "src" / "epochcast").iterdir() if path.is_file()}


def _contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_what_the_rooms_hold_and_nothing_else(released: Released, packed: set[str]) -> None:
    names = set(_contents(released.wheel))
    about = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    assert len(packed) > 400
    assert names - about == packed
    assert {name.split("/", 1)[1] for name in about} >= {"METADATA", "entry_points.txt", "licenses/LICENSE"}


def test_the_wheel_holds_the_files_as_they_are(released: Released, tree: Path) -> None:
    for name, content in _contents(released.wheel).items():
        room = name.split("/")[1]
        if room in ROOMS:
            assert content == (tree / name.removeprefix("epochcast/")).read_bytes(), name


def test_the_source_distribution_holds_real_files_and_no_tests(released: Released, packed: set[str]) -> None:
    with tarfile.open(released.source) as archive:
        members = archive.getmembers()
    top = f"epochcast-{version('epochcast')}/"
    assert all(member.isfile() or member.isdir() for member in members)
    names = {member.name.removeprefix(top) for member in members if member.isfile()}
    assert {name.removeprefix("src/") for name in names if name.startswith("src/epochcast/")} == packed
    rest = {name for name in names if not name.startswith(("src/epochcast/", "src/epochcast.egg-info/"))}
    assert rest == {*PROJECT_FILES, "PKG-INFO", "setup.cfg"}


def test_the_wheel_of_the_source_distribution_is_that_of_the_tree(released: Released, tree: Path, tmp_path: Path) -> None:
    _build(tree, tmp_path, "--wheel")
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.read_bytes() == released.wheel.read_bytes()


def test_the_metadata_names_no_machine_and_the_commands(released: Released) -> None:
    contents = {
        name.split("/", 1)[1]: text.decode() for name, text in _contents(released.wheel).items() if ".dist-info/" in name
    }
    assert re.search(r"^Requires-Python: .*>=3\.11", contents["METADATA"], flags=re.MULTILINE)
    assert "License-Expression: Apache-2.0" in contents["METADATA"]
    assert "Description-Content-Type: text/markdown" in contents["METADATA"]
    assert not re.search(
        r"^(Home-page|Project-URL):", contents["METADATA"], flags=re.MULTILINE
    )  # the project has no address yet
    assert {"epochcast", "epochcast-agent"} <= set(re.findall(r"^([\w-]+) =", contents["entry_points.txt"], flags=re.MULTILINE))
    for extra in ("agent-auth", "agent-push", "analyzer", "node", "service"):
        assert f"Provides-Extra: {extra}" in contents["METADATA"]


def _needed(wheel: Path, extra: str) -> set[str]:
    """The packages that the wheel brings along with an extra, and what those bring."""
    metadata = next(text for name, text in _contents(wheel).items() if name.endswith(".dist-info/METADATA"))
    own = email.message_from_bytes(metadata).get_all("Requires-Dist", [])
    seen, todo = set(), [("epochcast", extra)]
    while todo:
        name, wanted = todo.pop()
        for one in map(Requirement, own if name == "epochcast" else distribution(name).requires or ()):
            if one.marker is None or one.marker.evaluate({"extra": wanted}):
                fresh = {(one.name.lower(), each) for each in ("", *one.extras)} - seen
                seen |= fresh
                todo += fresh
    return {name for name, _ in seen} - {"epochcast"}


@pytest.fixture(scope="module")
def environment(released: Released, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The ``bin`` folder of an environment that has the wheel, and of third parties only what it brings with an extra."""

    @cache
    def make(extra: str) -> Path:
        folder = tmp_path_factory.mktemp(extra or "agent") / "venv"
        venv.create(folder, symlinks=True)
        python = folder / "bin" / "python"
        site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
        # The packages of this environment in place of a download, which a test must not need.
        for package in map(distribution, _needed(released.wheel, extra)):
            for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
                if not (site / top).exists():  # a namespace that several packages fill
                    (site / top).symlink_to(package.locate_file(top))
        pip = (sys.executable, "-m", "pip", "--python", python)
        run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-compile", released.wheel)
        return folder / "bin"

    return make


@pytest.fixture(scope="module")
def installed(environment: Callable[[str], Path]) -> Path:
    """The agent's environment."""
    return environment("")


def test_the_agent_runs_from_the_wheel_alone(installed: Path, tmp_path: Path) -> None:
    env = {"PATH": f"{installed}:/usr/bin:/bin"}
    where = run(installed / "python", "-c", "import epochcast; print(epochcast.__file__)", cwd=tmp_path, env=env).stdout
    assert where.startswith(str(installed.parent))
    said = run("epochcast-agent", "check", "--json", cwd=tmp_path, env=env).stdout
    assert '"sources"' in said
    help_page = run("epochcast-agent", "--help", cwd=tmp_path, env=env).stdout
    assert "usage" in help_page.lower()


# What only the paper's methods use: nothing may need it to start, or to answer as it does by default.
ASIDE = {"luminol", "future"}


def test_node_and_service_start_without_the_packages_of_the_paper(
    environment: Callable[[str], Path], start_process: Callable[..., Process], until: Any, tmp_path: Path
) -> None:
    clean = {"PYTHONPATH": ""}
    node, service = (environment(extra) / "python" for extra in ("node", "service"))
    for python in (node, service):
        found = run(
            python, "-c", f"import importlib.util as u; print([n for n in {ASIDE} if u.find_spec(n)])", env=clean
        ).stdout
        assert found == "[]\n"
    agent = start_process("-m", "epochcast.agent", python=node, env=clean)
    assert agent.json("/healthz")["status"] == "ok"
    (tmp_path / "node.toml").write_text(f'agent = "{agent.url}"\nstate = "{tmp_path / "node.db"}"\n')
    beside = start_process(
        "-m", "epochcast.analyzer", "serve", "--node", "--config", tmp_path / "node.toml", python=node, env=clean
    )
    assert beside.json("/healthz")["status"] == "ok"
    config, port = tmp_path / "analyzer.toml", free_port()
    config.write_text(f'port = {port}\nstate = "{tmp_path / "state.db"}"\n[[nodes]]\nurl = "{beside.url}"\n')
    command: list[object] = [service, "-m", "epochcast.analyzer", "serve", "--config", config]
    fleet = Program(command, f"http://127.0.0.1:{port}", tmp_path / "service.log", clean)
    fleet.start()
    try:
        until(lambda: fleet.answers("/readyz"))  # its modules are compiled first
        assert fleet.json("/api/v1/health")["status"] == "ok"
        assert [fleet.stop(), beside.stop()[0], agent.stop()[0]] == [0, 0, 0]
    finally:
        fleet.stop()


def test_the_command_answers_without_the_packages_of_the_paper_and_names_their_extra(
    environment: Callable[[str], Path], root: Path, tmp_path: Path
) -> None:
    write_example_files(tmp_path, root)
    epochcast = environment("service") / "epochcast"
    answers = {
        method: run(epochcast, "detect", "run.csv", "--json", *method, cwd=tmp_path, env={}).stdout
        for method in ((), ("--method", "paper"))
    }
    assert all('"verdict": "epochs"' in answer for answer in answers.values())
    assert '"predictions"' in run(epochcast, "predict", "run.csv", "--json", cwd=tmp_path, env={}).stdout
    package = ("detect", "run.csv", "--method", "paper", "--luminol", "package")
    done = subprocess.run([epochcast, *package], cwd=tmp_path, env={}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.fullmatch(r"epochcast: .* needs the package luminol; .*'\.\[paper\]'.*\n", done.stderr), done.stderr
