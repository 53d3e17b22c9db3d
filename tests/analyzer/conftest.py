"""Fixtures shared by the analyzer's tests."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are fitted with a tenth of the trees: for tests that ask how commands go together, not how well they predict."""
    from epochcast.regressor.recipes import DefaultRecipe  # seconds to import, which other tests need not wait for

    trees, *others = DefaultRecipe.__init__.__defaults__ or ()
    monkeypatch.setattr(DefaultRecipe.__init__, "__defaults__", (trees // 10, *others))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch computes in one thread: two wait for each other, for long where others compute too."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def answered(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command of ``epochcast`` with ``--json``; what comes back is its answer."""
    from epochcast.analyzer.cli import main

    def run(*arguments: object, status: int = 0) -> Any:
        assert main([*map(str, arguments), "--json"]) == status
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command of ``epochcast``; what comes back is what it prints for people."""
    from epochcast.analyzer.cli import main

    def run(*arguments: object, status: int = 0) -> str:
        assert main([*map(str, arguments)]) == status
        return capsys.readouterr().out

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command of ``epochcast`` that has no answer; what comes back is its one sentence."""
    from epochcast.analyzer.cli import main

    def run(*arguments: object) -> str:
        capsys.readouterr()
        assert main([*map(str, arguments)]) == 2
        said = capsys.readouterr()
        assert said.err.count("\n") == 1 and not said.out, said
        return said.err

    return run


_WITHOUT_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, *rest):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, NoTorch())
from epochcast.analyzer.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def without_torch(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Run a command of ``epochcast`` in a process that has no PyTorch and an empty cache."""

    def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", _WITHOUT_TORCH, *map(str, arguments)]
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    return run
