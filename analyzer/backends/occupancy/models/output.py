"""What models learn: standardised logarithms, for occupancies and bytes span powers of ten."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Output:
    """Mean and standard deviation of the logarithms that were learnt from."""

    mean: float
    scale: float

    @classmethod
    def of(cls, values: Floats, samples: int) -> Self:
        """For values to learn from, shape (n,).

        Raises:
            InputError: there are none, not one per sample, or one is not above 0.
        """
        if len(values) != samples or not samples:
            raise InputError(f"{samples} samples have {len(values)} labels; give one label per sample, and one sample or more")
        allowed = (values > 0) & np.isfinite(values)
        if not allowed.all():
            raise InputError(f"a label is {values[~allowed][0]:g}, but labels are finite and above 0; leave such rows out")
        logarithms = np.log(values)
        return cls(float(logarithms.mean()), float(logarithms.std()) or 1.0)

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """From what :meth:`state` gave."""
        return cls(float(state["mean"]), float(state["scale"]))

    def state(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    def learnt(self, values: Floats) -> Floats:
        """What a network's last number should be, shape (n,); 0 is the mean of what was learnt from."""
        return np.asarray((np.log(values) - self.mean) / self.scale)

    def values(self, learnt: Floats) -> Floats:
        """The quantity itself, shape (n,)."""
        return np.asarray(np.exp(self.mean + self.scale * learnt))
