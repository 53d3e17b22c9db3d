"""What all figures share: colours, look, panels, series, axes, and the two ways out, a file and a page.

Series differ by position, line style and marker as well as by colour (Okabe and Ito's colour-blind safe palette)."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.common.files import write_whole

BLUE, ORANGE, GREEN = "#2b83ba", "#d55e00", "#009e73"
_PAGE = "#010203"  # represents the page's text colour while drawing
_STYLE = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), _PAGE),
    "grid.alpha": 0.15,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.titlesize": 9,
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: searchable, read aloud, in the page's font
    "svg.hashsalt": "epochcast",  # the same figure has the same bytes
}
_FORMATS = (".png", ".svg", ".pdf")


@contextmanager
def drawing() -> Iterator[None]:
    """The look of all figures, while one is drawn or saved."""
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        yield


def save_figure(figure: Figure, path: Path, dpi: int = 150, *, simulated: bool = False) -> Path:
    """Write ``figure`` to a file, whole or not at all; raises InputError unless ``path`` ends in .png, .svg or .pdf.

    Of ``simulated`` telemetry, the figure says so.
    """
    if path.suffix not in _FORMATS:
        raise InputError(f"cannot draw to {str(path)!r}: name a file that ends in {', '.join(_FORMATS)}")
    if simulated:
        figure.suptitle("from simulated telemetry", x=0.01, ha="left", fontsize=10)
    with drawing():
        return write_whole(path, lambda file: figure.savefig(file, format=path.suffix[1:], dpi=dpi))


def page_svg(figure: Figure) -> bytes:
    """The figure as one ``<svg>`` element whose text and axes take the page's own colour, light or dark."""
    buffer = io.StringIO()
    with drawing():
        _settle(figure)
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(_PAGE, "currentColor").encode()


def _settle(figure: Figure) -> None:
    """Lay the figure out for good, on rounded positions: the solver's last digits vary, and identifiers are made of them."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, width, height = (round(float(part), 6) for part in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


# About one per pixel of a panel as wide as a page.
_COLUMNS = 1200

# A pause between readings this many times the usual one is a hole: no line crosses it.
_HOLE = 10.0


def draw_series(axes: Axes, time: NDArray[np.float64], values: NDArray[np.float64], *, color: str, width: float = 0.9) -> None:
    """Draw the readings (NaN: none at this time); if there are too many to distinguish, their mean and range per column.

    A line through every sample of a long trace would be a solid band that hides the epochs.
    """
    read = ~np.isnan(values)
    time, values = time[read], values[read]
    if time.size > 2 * _COLUMNS:
        time, low, values, high = _by_column(time, values)
        axes.fill_between(time, low, high, color=color, alpha=0.4, linewidth=0)
    if time.size > 2:
        steps = np.diff(time)
        holes = np.flatnonzero(steps > _HOLE * np.median(steps)) + 1
        time, values = np.insert(time, holes, np.nan), np.insert(values, holes, np.nan)
    axes.plot(time, values, color=color, linewidth=width)


def _by_column(
    time: NDArray[np.float64], values: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Time, minimum, mean and maximum of each column that holds a reading."""
    edges = np.linspace(time[0], time[-1], _COLUMNS + 1)[:-1]
    first = np.unique(np.searchsorted(time, edges))
    count = np.diff(np.append(first, time.size))
    mean = np.add.reduceat(values, first) / count
    return time[first], np.minimum.reduceat(values, first), mean, np.maximum.reduceat(values, first)


_UNITS = (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0))


def plain_log_axis(axis: XAxis | YAxis, unit: str = "") -> None:
    """Make the axis of what is drawn already logarithmic, its ticks written out (no powers of ten), each with ``unit``."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 10 * low else (1, 1.5, 2, 3, 4, 5, 6, 8)))
    axis.set_major_formatter(lambda value, _: _plain(value) + unit)
    axis.set_minor_formatter(NullFormatter())


def ticks_at(axis: XAxis | YAxis, places: Sequence[float] | NDArray[np.float64]) -> None:
    """Make a tick at each of the places, its number written out, and no others."""
    axis.set_major_locator(FixedLocator(list(places)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:g}")


def sizes_axis(axes: Axes, sizes: NDArray[np.float64], most: int) -> None:
    """Make the horizontal axis one of batches or devices, shape (n,), ascending: ticks at them, ``most`` at most.

    It is logarithmic where they span a factor of eight.
    """
    if sizes[-1] >= 8 * sizes[0]:
        axes.set_xscale("log", base=2)
    ticks_at(axes.xaxis, sizes[:: math.ceil(len(sizes) / most)])


def panels_of(figure: Figure, count: int, columns: int, xlabel: str = "") -> list[Axes]:
    """``count`` axes, ``columns`` in each row but the last, with ``xlabel`` below the lowest of each column."""
    panels = list(figure.subplots(math.ceil(count / columns), columns, squeeze=False).flat)
    for axes in panels[count:]:
        axes.remove()
    for axes in panels[max(0, count - columns) : count]:
        axes.set_xlabel(xlabel)
    return panels[:count]


def time_unit(seconds: Iterable[float]) -> tuple[str, float]:
    """The largest unit in which the middle one of ``seconds`` is 2 or more, and its seconds."""
    middle = float(np.median(list(seconds)))
    return next((unit for unit in _UNITS if middle >= 2 * unit[1]), ("seconds", 1.0))


def _plain(value: float) -> str:
    return np.format_float_positional(value, precision=6, fractional=False, trim="-")
