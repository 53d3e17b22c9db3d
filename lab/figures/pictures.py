"""What evaluations look like as pictures: predicted over measured, and errors by recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Pairs:
    """Measured next to predicted values.

    Attributes:
        title: such as the way to predict, and what was timed.
        measured, predicted: seconds, or ratios 0..1, shape (n,); predicted NaN where there is no answer.
        groups: such as the device of each row, or the family of its network, shape (n,); each has a look of its own.
    """

    title: str
    measured: NDArray[np.float64]
    predicted: NDArray[np.float64]
    groups: NDArray[np.str_]


@dataclass(frozen=True)
class Scatter:
    """Predicted over measured seconds: rows of panels, of which some may be shorter."""

    rows: Sequence[Sequence[Pairs]]

    def figure(self) -> Figure:
        """The picture."""
        from lab.figures.scatter import step_figure

        return step_figure(self.rows)


@dataclass(frozen=True)
class Errors:
    """MAPE in percent by recipe, then by precision and (data, tensor, pipeline); the first recipe is drawn larger."""

    mape: Mapping[str, Mapping[tuple[str, tuple[int, int, int]], float]]

    def figure(self) -> Figure:
        """The picture."""
        from lab.figures.errors import errors_figure

        return errors_figure(self.mape)
