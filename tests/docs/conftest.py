"""Pages link to the reference, which is written from the code and not committed."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def reference(root: Path) -> None:
    """Write docs/reference; one worker at a time."""
    if find_spec("fastapi") is None:
        pytest.skip("the reference of the service needs the extra service")
    from filelock import FileLock

    with FileLock(root / "docs/reference/.lock"):
        subprocess.run([sys.executable, root / "docs/generate"], check=True, capture_output=True)
