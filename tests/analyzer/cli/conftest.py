"""A job that commands are asked about."""

from pathlib import Path

import pytest

from epochcast.analyzer.cli import main


@pytest.fixture(scope="session")
def profile(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `epochcast profile` makes of it: a source whose epochs need not be looked for again."""
    path = tmp_path_factory.mktemp("profiles") / "run.json"
    assert main(["profile", str(run), "--out", str(path)]) == 0
    return path
