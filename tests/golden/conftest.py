"""What the goldens are asked with; ``pytest tests/golden --write-golden`` writes the expected answers again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ..price_day import price_day
from ..searched_once import searched_once
from .answers import EXPECTED, differences, text
from .inputs import write_inputs

__all__ = ["price_day", "searched_once"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-golden", action="store_true", help="write the expected answers again instead of comparing")


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """A folder with every file that the commands name."""
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder, root)
    return folder


@pytest.fixture
def work(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that commands run in, with links to the inputs: what one test writes no other sees."""
    for path in inputs.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.fixture
def same_as_before(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare an answer with ``expected/NAME.json``, or write it there."""

    def check(name: str, answer: Any, rel: float = 1e-6) -> None:
        path = EXPECTED / f"{name}.json"
        if request.config.getoption("--write-golden", False):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text(answer) + "\n", encoding="utf-8")
        assert path.is_file(), f"no {path.name}: pytest tests/golden --write-golden writes it"
        found = list(differences(json.loads(path.read_text(encoding="utf-8")), answer, rel))
        assert not found, f"{len(found)} differ from {path.name}:\n" + "\n".join(found[:20])

    return check
