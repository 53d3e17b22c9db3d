"""The two models that the black-box paper stacks."""

from typing import TYPE_CHECKING, Any

from sklearn.ensemble import RandomForestRegressor

from epochcast.extras import how_to_install
from epochcast.regressor.errors import InputError

if TYPE_CHECKING:
    from catboost import CatBoostRegressor


def forest(trees: int, random_state: int) -> RandomForestRegressor:
    """Return the stack's first member, unfitted, with the library's defaults."""
    return RandomForestRegressor(trees, random_state=random_state)


def boosting(iterations: int, random_state: int) -> "CatBoostRegressor":
    """Return the stack's second member, unfitted, with the library's defaults; one thread, no files next to the answer.

    Raises:
        InputError: catboost is not installed.
    """
    try:
        from catboost import CatBoostRegressor
    except ImportError as error:
        raise InputError(f"the paper's recipe is fitted by the package catboost; {how_to_install('paper')}") from error
    return CatBoostRegressor(
        iterations=iterations, random_seed=random_state, thread_count=1, verbose=0, allow_writing_files=False
    )


def members(trees: int, iterations: int, random_state: int) -> list[tuple[str, Any]]:
    """The two models that the paper stacks, unfitted, under their names in a scikit-learn ensemble."""
    return [("forest", forest(trees, random_state)), ("catboost", boosting(iterations, random_state))]
