"""What all figures share: colours, look, and the two ways out, a file and a page.

Series are told apart by position, line style and marker as well as by colour (Okabe and Ito's colour-blind safe palette).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from ..errors import InputError
from ..files import write_whole

BLUE, ORANGE, GREEN = "#2b83ba", "#d55e00", "#009e73"
_PAGE = "#010203"  # stands for the page's text colour while drawing
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
