"""Fixtures shared by the analyzer's tests."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are fitted with a tenth of the trees: for tests that ask how commands go together, not how well they predict."""
    from epochcast.regressor.recipes import DefaultRecipe  # seconds to import, which other tests need not wait for

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
