"""Fixtures shared by the analyzer's tests."""

import pytest


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are fitted with a tenth of the trees: for tests that ask how commands go together, not how well they predict."""
    from epochcast.regressor.recipes import DefaultRecipe  # seconds to import, which other tests need not wait for

    trees, *others = DefaultRecipe.__init__.__defaults__ or ()
    monkeypatch.setattr(DefaultRecipe.__init__, "__defaults__", (trees // 10, *others))
