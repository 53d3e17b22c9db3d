"""The `luminol` package itself: what `luminol.scores` is held against, and `detect --luminol package` runs."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray


def scores(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Anomaly scores by the package, with its defaults, one second per sample.

    Not safe among threads: NumPy is patched during the call.

    Args:
        values: (n,) finite values, n >= 2.

    Raises:
        ImportError: the package is not installed.
    """
    from luminol.anomaly_detector import AnomalyDetector

    with _numpy_asscalar():
        detector = AnomalyDetector(dict(enumerate(values.tolist())), score_only=True)
    return np.array(detector.get_all_scores().values)


@contextmanager
def _numpy_asscalar() -> Iterator[None]:
    """Lend the package the `numpy.asscalar` that it still calls and NumPy 1.23 removed."""
    if hasattr(np, "asscalar"):
        yield
        return
    np.asscalar = lambda array: array.item()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del np.asscalar  # type: ignore[attr-defined]
