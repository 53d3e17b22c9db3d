"""What an answer looks like as a picture, without what draws it (``charts.py``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A quantity over places.

    Attributes:
        name: for the legend; lines of one name look alike in all panels.
        places: sizes in ascending order, above 0; or names, where it is drawn as bars.
        values: one for each place; None where there is none, or, of bars, where the memory is too small. Empty: the places are
            marked, and nothing is drawn over them.
        low, high: ends of the 90 % interval (of bars: of what they are said to be); empty: none.
        assumed: whether it has no measured value.
    """

    name: str
    places: Sequence[float] | Sequence[str]
    values: Sequence[float | None] = ()
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    assumed: bool = False


@dataclass(frozen=True)
class Chart:
    """Panels side by side with one legend.

    Attributes:
        panels: lines by the panel's title, the first on top.
        xlabel: what the places are.
        ylabel: what the values are; empty: as titles and legend say.
        unit: of the values: ``%`` of ratios 0..1, or a unit that takes prefixes, such as ``s``; empty: as the label says.
    """

    panels: Mapping[str, Sequence[Line]]
    xlabel: str
    ylabel: str = ""
    unit: str = ""
