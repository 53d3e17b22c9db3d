"""CatBoost, as both models of a latency ratio use it: few shallow trees on numbers, kept in CatBoost's own format."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from catboost import CatBoostError, CatBoostRegressor
from numpy.typing import NDArray

from epochcast.regressor.errors import InputError

# By choice (../shared/research/latency_model.md, "Model").
_DEPTH, _LEARNING_RATE = 5, 0.06

SHARE = 1 / 3
"""Of CatBoost in an answer, the rest is of the model beside it. On the visible rates cross-fitted least squares give it
nothing, and a plain mean is half a point worse than a third; on kept-back workloads the mean was better than the ridge alone
(../shared/research/latency_model.md, "Results"). Chosen on these rows."""


class Boosting:
    """A fitted CatBoostRegressor.

    Args:
        iterations: trees.
        rising: as many first columns never lower the answer, such as data-sheet figures of the source over the target's.

    Attributes:
        stored: the fitted model in CatBoost's own format, as bytes.
    """

    def __init__(self, iterations: int, rising: int = 0) -> None:
        self._model = CatBoostRegressor(
            iterations=iterations,
            depth=_DEPTH,
            learning_rate=_LEARNING_RATE,
            random_seed=0,
            thread_count=1,
            verbose=0,
            allow_writing_files=False,
            monotone_constraints=dict.fromkeys(range(rising), 1),
        )

    def fit(self, X: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64]) -> Self:
        """Fit on X of shape (n, features), NaN where a feature is not known, y and weights of shape (n,).

        Raises:
            InputError: the folder of temporary files is full.
        """
        if np.ptp(y) == 0:  # which CatBoost refuses: a data set without any difference
            y = y + 1e-9 * np.arange(len(y))
        self._model.fit(X, y, sample_weight=weights)
        self.stored = self._to_array()
        return self

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the answer for each row of X, shape (n, features) -> (n,)."""
        answer: NDArray[np.float64] = self._model.predict(X, thread_count=1)
        return answer

    def _to_array(self) -> NDArray[np.uint8]:
        metadata = self._model.get_metadata()
        for name in ("model_guid", "train_finish_time"):  # the same training gives the same file
            if name in list(metadata):
                del metadata[name]
        with TemporaryDirectory() as folder:  # CatBoost writes to a file only
            file = Path(folder, "model.cbm")
            try:
                self._model.save_model(str(file))
            except CatBoostError as error:
                raise InputError(
                    f"cannot write to {folder!r}: {error}; make room there, or name another place in TMPDIR"
                ) from error
            return np.frombuffer(file.read_bytes(), np.uint8)

    @classmethod
    def of_array(cls, stored: NDArray[Any]) -> Self:
        """The model of a :attr:`stored`."""
        boosting = cls(1)
        boosting._model, boosting.stored = CatBoostRegressor().load_model(blob=stored.tobytes()), stored
        return boosting
