"""``pytest tests/golden --write-golden`` writes the expected answers again."""

import pytest

from ..price_day import price_day
from ..searched_once import searched_once

__all__ = ["price_day", "searched_once"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-golden", action="store_true", help="write the expected answers again instead of comparing")
