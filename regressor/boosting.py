"""CatBoost beside another model: fitted on few numbers, kept in its own format."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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


def boosted(
    X: NDArray[np.float64], y: NDArray[np.float64], weights: NDArray[np.float64], iterations: int, rising: int = 0
) -> CatBoostRegressor:
    """Fit CatBoost on X of shape (n, features), NaN where a feature is not known, y and weights of shape (n,).

    ``rising``: as many first columns never lower the answer, such as data-sheet figures of the source over the target's.
    """
    if np.ptp(y) == 0:  # which CatBoost refuses: a data set without any difference
        y = y + 1e-9 * np.arange(len(y))
    return CatBoostRegressor(
        iterations=iterations,
        depth=_DEPTH,
        learning_rate=_LEARNING_RATE,
        random_seed=0,
        thread_count=1,
        verbose=0,
        allow_writing_files=False,
        monotone_constraints=dict.fromkeys(range(rising), 1),
    ).fit(X, y, sample_weight=weights)


def array_of(model: CatBoostRegressor) -> NDArray[np.uint8]:
    """A fitted model in CatBoost's own format, as bytes.

    Raises:
        InputError: the folder of temporary files is full.
    """
    metadata = model.get_metadata()
    for name in ("model_guid", "train_finish_time"):  # the same training gives the same file
        if name in list(metadata):
            del metadata[name]
    with TemporaryDirectory() as folder:  # CatBoost writes to a file only
        file = Path(folder, "model.cbm")
        try:
            model.save_model(str(file))
        except CatBoostError as error:
            raise InputError(
                f"cannot write to {folder!r}: {error}; make room there, or name another place in TMPDIR"
            ) from error
        return np.frombuffer(file.read_bytes(), np.uint8)


def model_of(stored: NDArray[Any]) -> CatBoostRegressor:
    """The model of :func:`array_of`."""
    return CatBoostRegressor().load_model(blob=stored.tobytes())
