"""Fixtures shared by all rooms' tests."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public measurements; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("EPOCHCAST_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}: set EPOCHCAST_SHARED to where it lies")
    return folder
