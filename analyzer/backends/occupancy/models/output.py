"""What models learnt: standardised logarithms, for occupancies and bytes span powers of ten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Output:
    """Mean and standard deviation of the logarithms that were learnt from."""

    mean: float
    scale: float

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """From JSON."""
        return cls(float(state["mean"]), float(state["scale"]))

    def values(self, learnt: Floats) -> Floats:
        """The quantity itself, shape (n,)."""
        return np.asarray(np.exp(self.mean + self.scale * learnt))
