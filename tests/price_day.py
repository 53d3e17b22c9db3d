"""The day by which the tests take prices to be fresh or stale: what rests on the shipped table must not change with time."""

from collections.abc import Iterator
from datetime import date

import pytest

PRICE_DAY = date(2026, 11, 26)


@pytest.fixture(scope="session", autouse=True)
def price_day() -> Iterator[date]:
    """Ages of prices count from `PRICE_DAY`."""
    from epochcast.analyzer.jobs import prices

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prices, "today", lambda: PRICE_DAY)
        yield PRICE_DAY
