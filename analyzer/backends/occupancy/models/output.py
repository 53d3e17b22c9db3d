"""What models learn in place of the quantity that is asked for: occupancies stay within 0..1, seconds above 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ....errors import InputError

Floats = NDArray[np.float64]
Target = Literal["ratio", "seconds"]

_EDGE = 0.01
"""How near to 0 and 1 the mean of ratios may be told from: beyond, a sigmoid hardly moves."""


@dataclass(frozen=True)
class Output:
    """The quantity, and the scale of what was learnt.

    A ``ratio`` is learnt as it is, with the squared error of the paper (section III-E); networks answer through a sigmoid, of
    which the paper says nothing. ``seconds`` are learnt as standardised logarithms, for steps differ by powers of ten.

    Attributes:
        target: the quantity.
        mean: of the logarithms of the seconds that were learnt from; of ratios, the logit of their mean.
        scale: standard deviation of those logarithms; 1 for ratios.
    """

    target: Target
    mean: float
    scale: float

    @classmethod
    def of(cls, target: Target, values: Floats, samples: int) -> Self:
        """For values to learn from, shape (n,).

        Raises:
            InputError: there are none, not one per sample, or one is no ratio within 0..1 or no seconds above 0.
        """
        if len(values) != samples or not samples:
            raise InputError(f"{samples} samples have {len(values)} labels; give one label per sample, and one sample or more")
        allowed = (values >= 0) & (values <= 1) if target == "ratio" else (values > 0) & np.isfinite(values)
        if not allowed.all():
            wanted = "occupancy is a ratio from 0 to 1" if target == "ratio" else "seconds are finite and above 0"
            raise InputError(f"a label is {values[~allowed][0]:g}, but {wanted}; leave such rows out")
        if target == "ratio":
            share = float(np.clip(values.mean(), _EDGE, 1 - _EDGE))
            return cls(target, float(np.log(share / (1 - share))), 1.0)
        logarithms = np.log(values)
        return cls(target, float(logarithms.mean()), float(logarithms.std()) or 1.0)

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """From what :meth:`state` gave."""
        return cls(state["target"], float(state["mean"]), float(state["scale"]))

    def state(self) -> dict[str, Any]:
        """As JSON."""
        return {"target": self.target, "mean": self.mean, "scale": self.scale}

    def learnt(self, values: Floats) -> Floats:
        """What the answer is compared with in training, shape (n,)."""
        return values if self.target == "ratio" else (np.log(values) - self.mean) / self.scale

    def answer(self, raw: Any) -> Any:
        """A network's last numbers (a tensor) in the units of :meth:`learnt`; zeros are the mean of what was learnt from."""
        return (raw + self.mean).sigmoid() if self.target == "ratio" else raw

    def values(self, learnt: Floats) -> Floats:
        """The quantity itself, shape (n,), from the units of :meth:`learnt`."""
        if self.target == "ratio":
            return np.clip(learnt, 0.0, 1.0)
        return np.asarray(np.exp(self.mean + self.scale * learnt))
