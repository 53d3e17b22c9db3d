"""What an answer looks like as a picture, without what draws it: lines over sizes, bars, or ratios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Line:
    """A quantity over the places of its panel, as many values; None where there is none.

    Attributes:
        name: for the legend; lines of one name look alike in all panels.
        values: ratios 0..1, or amounts.
        low, high: ends of the 90 % interval; empty: none.
        assumed: whether it has no measured value.
    """

    name: str
    values: Sequence[float | None]
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    assumed: bool = False


@dataclass(frozen=True)
class Panel:
    """Lines over sizes such as batches.

    Attributes:
        title: what it shows.
        places: sizes in ascending order, above 0.
        lines: the first is drawn on top.
        mark: a size that the answer names; None: none.
    """

    title: str
    places: Sequence[float]
    lines: Sequence[Line]
    mark: float | None = None


@dataclass(frozen=True)
class Chart:
    """Panels side by side with one legend.

    Attributes:
        panels: one at least.
        xlabel: what the sizes are.
        mark: what marked sizes are, for the legend.
        ylabel: what the values are; empty: as the legend says.
        ratio: whether values are ratios 0..1, drawn as per cent; others are drawn from 0 up.
    """

    panels: Sequence[Panel]
    xlabel: str
    mark: str = ""
    ylabel: str = ""
    ratio: bool = True


@dataclass(frozen=True)
class Bars:
    """Seconds of one iteration: a group of bars per (data, tensor, pipeline), a bar per precision.

    Attributes:
        title: what was predicted.
        seconds: by degrees and precision, in the order to be drawn; None: out of memory.
    """

    title: str
    seconds: Mapping[tuple[tuple[int, int, int], str], float | None]


@dataclass(frozen=True)
class Ratio:
    """Time on one GPU over that on the source, and the ends of its 90 % interval; ``assumed``: by a data sheet."""

    name: str
    value: float
    low: float
    high: float
    assumed: bool = False


@dataclass(frozen=True)
class Ratios:
    """Times on GPUs relative to the GPU ``source``, a row each."""

    source: str
    rows: Sequence[Ratio]


class Drawn(Protocol):
    """What none of the others is, and so draws itself."""

    def figure(self) -> Figure:
        """The picture."""
        ...


Picture = Chart | Bars | Ratios | Drawn
