"""A job that commands are asked about."""

from contextlib import redirect_stdout
from pathlib import Path

import pytest

from epochcast.analyzer.cli import main


@pytest.fixture(scope="session")
def profile(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `epochcast profile` makes of it: a source whose epochs need not be looked for again."""
    path = tmp_path_factory.mktemp("profiles") / "run.json"
    with path.open("w") as file, redirect_stdout(file):
        assert main(["profile", str(run)]) == 0
    return path
