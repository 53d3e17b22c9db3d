"""Fixtures shared by the analyzer's tests."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..price_day import price_day
from ..searched_once import searched_once

__all__ = ["price_day", "searched_once"]

if TYPE_CHECKING:  # seconds to import, which tests of other parts need not wait for
    from epochcast.analyzer.jobs.advisor import Advisor
    from epochcast.regressor import Catalog


@pytest.fixture(scope="session")
def advisor() -> "Advisor":
    """What answers about jobs, with all that is shipped."""
    from epochcast.analyzer.jobs.advisor import Advisor

    return Advisor.load()


@pytest.fixture(scope="session")
def catalog() -> "Catalog":
    """The shipped GPUs."""
    from epochcast.regressor import load_catalog

    return load_catalog()


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a simulated training on a T4: ten epochs of 6 s, alone in its folder."""
    import pandas as pd

    from epochcast.analyzer.traces.trace import Trace, write_trace
    from lab.simulator import simulate

    made = simulate(seed=1, epochs=10, epoch_s=6.0)
    trace = Trace(pd.DataFrame({"time": made.time, **made.metrics}), gpu="Tesla T4", source="replay", simulated=True)
    return write_trace(trace, tmp_path_factory.mktemp("traces") / "run.parquet")


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run a command with --json; the document that it prints."""
    from epochcast.analyzer.cli import main

    def document(*arguments: object, status: int = 0) -> Any:
        assert main([*map(str, arguments), "--json"]) == status
        return json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    return document


@pytest.fixture
def text(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command; what it prints, notes last."""
    from epochcast.analyzer.cli import main

    def printed(*arguments: object, status: int = 0) -> str:
        assert main([*map(str, arguments)]) == status
        return "".join(capsys.readouterr())

    return printed


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that does nothing but say why, in one line, and ends with 2; the line."""
    from epochcast.analyzer.cli import main

    def sentence(*arguments: object) -> str:
        capsys.readouterr()
        assert main([*map(str, arguments)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1), err
        return err

    return sentence


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are fitted with a tenth of the trees: for tests that ask how commands go together, not how well they predict."""
    from epochcast.regressor.recipes import DefaultRecipe

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
def answered(answer: Callable[..., Any]) -> Callable[..., Any]:
    """`answer`."""
    return answer


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command of ``epochcast``; what comes back is what it prints for people."""
    from epochcast.analyzer.cli import main

    def run(*arguments: object, status: int = 0) -> str:
        assert main([*map(str, arguments)]) == status
        return capsys.readouterr().out

    return run


@pytest.fixture
def refused(refusal: Callable[..., str]) -> Callable[..., str]:
    """`refusal`."""
    return refusal


_WITHOUT_TORCH = """
import sys

sys.modules["torch"] = None
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
