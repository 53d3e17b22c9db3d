"""docs/reference says what the code does: the generated pages are those that the generator writes now."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.skipif(find_spec("fastapi") is None, reason="the reference of the service needs the extra service")
def test_the_generated_pages_are_those_of_the_code(root: Path) -> None:
    done = subprocess.run([sys.executable, root / "docs/generate", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
