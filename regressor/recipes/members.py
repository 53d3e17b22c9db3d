"""The two models that the black-box paper stacks."""

from typing import Any

from catboost import CatBoostRegressor
from sklearn.ensemble import RandomForestRegressor


def forest(trees: int, random_state: int) -> RandomForestRegressor:
    """Return the stack's first member, unfitted, with the library's defaults."""
    return RandomForestRegressor(trees, random_state=random_state)


def boosting(iterations: int, random_state: int) -> CatBoostRegressor:
    """Return the stack's second member, unfitted, with the library's defaults; one thread, no files next to the answer."""
    return CatBoostRegressor(
        iterations=iterations, random_seed=random_state, thread_count=1, verbose=0, allow_writing_files=False
    )


def members(trees: int, iterations: int, random_state: int) -> list[tuple[str, Any]]:
    """The two models that the paper stacks, unfitted, under their names in a scikit-learn ensemble."""
    return [("forest", forest(trees, random_state)), ("catboost", boosting(iterations, random_state))]
