"""Forms of the performance model, one file each: what the seconds of a phase are a function of, and how it is fitted."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class Form(Protocol):
    """Seconds of one phase on one device at one precision; made for a phase, then fitted."""

    def fit(self, points: pd.DataFrame, seconds: NDArray[np.float64]) -> Self:
        """Fit on points (metrics at batch 1, ``batch``, ``devices``, ``nodes``, ``family``) and measured seconds, shape (n,)."""
        ...

    def predict(self, points: pd.DataFrame) -> NDArray[np.float64]:
        """Seconds, shape (n,), above 0."""
        ...

    def state(self) -> dict[str, Any]:
        """What was fitted, as JSON."""
        ...
