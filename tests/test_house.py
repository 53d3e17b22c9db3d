"""The house rules: import directions, what the agent may load, and names that no foreign package can shadow."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

# room -> the rooms it may import (design: detector and regressor stand alone; the analyzer talks to the agent over HTTP)
ALLOWED = {
    "agent": {"common"},
    "detector": set(),
    "regressor": set(),
    "analyzer": {"common", "detector", "regressor"},
    "common": set(),
}
# room -> third-party packages it may import at module level
AT_IMPORT = {
    "agent": {"numpy", "prometheus_client", "pynvml"},
    "detector": {"numpy", "scipy"},
    "regressor": {"annotated_types", "catboost", "numpy", "scipy", "pandas", "sklearn", "pydantic"},
    "analyzer": {
        *(
            "annotated_types",
            "click",
            "jinja2",
            "markupsafe",
            "matplotlib",
            "numpy",
            "pandas",
            "pyarrow",
            "pydantic",
            "requests",
            "rich",
            "scipy",
            "urllib3",
        ),
        "yaml",
    },
    "common": set(),
}
# folder -> what its modules may import beyond their room's
ALSO_AT_IMPORT = {
    "analyzer/backends": {"torch"},
    "analyzer/fleet": {"fsspec", "pebble"},
    "analyzer/live": {"prometheus_client"},
    "analyzer/node": {"prometheus_client"},
    "analyzer/service": {"anyio", "fastapi", "pebble", "prometheus_client", "starlette", "uvicorn"},
}


def _modules(root: Path, room: str) -> list[Path]:
    return sorted((root / room).rglob("*.py"))


@cache
def _imports(path: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Names that a file imports anywhere, and at its top; ruff (TID252) keeps them absolute."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return _imported(ast.walk(tree)), _imported(tree.body)


def _imported(nodes: Iterable[ast.AST]) -> frozenset[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_import_only_what_the_architecture_allows(root: Path, room: str) -> None:
    modules = _modules(root, room)
    assert modules, f"no modules in {room}/"
    for path in modules:
        for name in _imports(path)[0]:
            parts = name.split(".")
            if parts[0] == "epochcast" and len(parts) > 1 and parts[1] in ALLOWED:
                assert parts[1] == room or parts[1] in ALLOWED[room], f"{path.relative_to(root)} imports {name}"


@pytest.mark.parametrize("room", ALLOWED)
def test_no_two_folders_of_a_room_import_each_other(root: Path, room: str) -> None:
    arrows = {
        (path.relative_to(root).parts[1], name.split(".")[2])
        for path in _modules(root, room)
        for name in _imports(path)[0]
        if name.startswith(f"epochcast.{room}.") and name.count(".") > 2
    }
    both = sorted({tuple(sorted(arrow)) for arrow in arrows if arrow[0] != arrow[1] and arrow[::-1] in arrows})
    assert not both


def test_what_reads_telemetry_knows_nothing_of_what_uses_it(root: Path) -> None:
    """Readers, recorder and traces are below all other folders of the analyzer; other tools' logs are below traces."""
    for path in _modules(root / "analyzer", "traces"):
        for name in _imports(path)[0]:
            assert not re.match(r"epochcast\.analyzer\.(?!traces|errors|words)", name), f"{path} imports {name}"
            above = "logs" in path.parts and re.match(r".*traces\.(trace|job_traces|recording)\b", name)
            assert not above, f"{path} imports {name}"


def test_what_rooms_share_imports_nothing_but_the_standard_library(root: Path) -> None:
    """Neither at its top nor when it is used: the agent and the ``node`` extra have it, and no package for it."""
    common = _modules(root, "common")
    for path in (*(root / "src" / "epochcast").glob("*.py"), *common):
        tops = {name.split(".")[0] for name in _imports(path)[0]}
        # `import epochcast` offers notebooks the analyzer's answers, loaded when they are used.
        own = {"epochcast"} if path.name == "__init__.py" or path in common else set()
        assert tops <= set(sys.stdlib_module_names) | own, f"{path.name} imports {tops}"


@pytest.mark.parametrize("room", AT_IMPORT)
def test_rooms_load_only_their_own_third_party_packages(root: Path, room: str) -> None:
    for path in _modules(root, room):
        if path.parent.name == "demo":  # the demo's trainer is a user's program: torch where there is torch
            continue
        tops = {name.split(".")[0] for name in _imports(path)[1]}
        allowed = AT_IMPORT[room].union(
            *(also for folder, also in ALSO_AT_IMPORT.items() if path.is_relative_to(root / folder))
        )
        foreign = tops - set(sys.stdlib_module_names) - {"epochcast", "__future__"} - allowed
        assert not foreign, f"{path.relative_to(root)} imports {foreign} at module level"


def test_agent_runs_without_the_analyzer_extra() -> None:
    """The daemon's process must stay light: nothing of the analyzer's stack may be loaded by it."""
    code = (
        "import sys, epochcast.agent.cli, epochcast.agent.push, epochcast.agent.server\n"
        "from epochcast.agent.config import Config\n"
        "from epochcast.agent.sources import Tick, open_source\n"
        "assert list(open_source('host', Config()).read(Tick(0.0, 0.0, True, True)))\n"
        "heavy = {'pandas', 'scipy', 'sklearn', 'pyarrow', 'requests', 'click', 'matplotlib', 'torch', 'catboost'}\n"
        "sys.exit(f'loaded: {heavy & set(sys.modules)}' if heavy & set(sys.modules) else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_command_line_starts_without_torch() -> None:
    """torch takes seconds to load and may be absent: only what needs it loads it, when it is used."""
    code = (
        "import importlib, pkgutil, sys, epochcast.analyzer.cli as cli;"
        "[importlib.import_module(found.name) for found in pkgutil.walk_packages(cli.__path__, f'{cli.__name__}.')];"
        "sys.exit('loaded: torch' if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["-m", "epochcast.agent", "check"], ["-m", "epochcast.analyzer", "--version"]])
def test_a_foreign_agent_package_shadows_nothing(tmp_path: Path, arguments: list[str]) -> None:
    """Reinforcement-learning projects have an ``agent/`` (and ``detector/``…) of their own on PYTHONPATH."""
    for room in ALLOWED:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("raise RuntimeError('the foreign package was imported')\n")
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_base_install_says_which_extra_is_missing(tmp_path: Path) -> None:
    """``epochcast`` on a node that has only the agent's packages: one sentence, exit 2."""
    code = (
        "import importlib.util, sys\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name in ('click', 'pandas') else real(name, *rest)\n"
        "from epochcast.analyzer.entry import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "'.[analyzer]'" in done.stderr


def _strings(path: Path) -> Iterable[tuple[int, str]]:
    """Line and text of what a file may show: string literals but no docstrings, other files without their comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        for number, line in enumerate(text.splitlines(), start=1):
            yield number, "" if line.lstrip().startswith("#") else line
        return
    tree = ast.parse(text)
    # A command's docstring is its help.
    is_help = "/analyzer/cli/" in path.as_posix()
    silent = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and not is_help
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.lineno, node.value


@pytest.mark.parametrize("room", ALLOWED)
def test_what_is_shown_names_nothing_that_an_installed_user_lacks(root: Path, room: str) -> None:
    """No page of the repository, which a wheel does not have, and no package index, which does not have Epochcast."""
    found = []
    for path in sorted(one for one in (root / room).rglob("*") if one.suffix in {".py", ".toml", ".html", ".js"}):
        name = path.relative_to(root).as_posix()
        for line, text in _strings(path):
            if re.search(r"(?<![\w./])docs/\w", text):
                found.append(f"{name}:{line} names a page")
            if re.search(r"install ['\"]?epochcast\b", text):
                found.append(f"{name}:{line} installs from an index")
    assert not found


@pytest.mark.parametrize("room", [*ALLOWED, "src"])
def test_the_product_neither_imports_nor_loads_by_name_what_the_workshop_has(root: Path, room: str) -> None:
    """``lab/`` is not installed; what it has beside the product's own methods, it registers itself. Comments may cite it."""
    found = []
    for path in sorted(_modules(root, room) if room != "src" else (root / "src" / "epochcast").glob("*.py")):
        name = path.relative_to(root).as_posix()
        found += [f"{name} imports {one}" for one in _imports(path)[0] if one.split(".")[0] == "lab"]
        found += [f"{name}:{line} names lab" for line, text in _strings(path) if re.search(r"\blab(\.|/|$)\w*", text)]
    assert not found


def test_no_registry_host_and_no_path_of_one_machine_is_committed(root: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    hosts = ("pypi" + ".org", "python" + "hosted.org", "registry.npm" + "js.org", "deb.debian" + ".org", "/work/" + "main")
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = root / name
        if path.is_file() and path.stat().st_size < 1_000_000:
            content = path.read_bytes()
            found = [host for host in hosts if host.encode() in content]
            assert not found, f"{name} names {found}"
