"""Recipes: how a latency on another GPU is predicted. One file each.

A recipe follows scikit-learn's conventions (hyper-parameters in ``__init__``, ``fit`` learns into trailing-underscore
attributes), with pairs in the place of a matrix.
"""

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.pairs import Pair
from epochcast.regressor.recipes.default import DefaultRecipe
from epochcast.regressor.recipes.paper import PaperRecipe


class Recipe(Protocol):
    """Learns from measured pairs, answers seconds on the target."""

    def fit(self, pairs: Sequence[Pair]) -> Self:
        """Learn from measured pairs."""
        ...

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,); NaN where the recipe has no answer."""
        ...

    def get_params(self) -> dict[str, Any]:
        """Return the hyper-parameters."""
        ...


__all__ = ["DefaultRecipe", "PaperRecipe", "Recipe"]
