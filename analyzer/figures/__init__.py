"""Figures of traces, predictions and costs, for files and for HTML pages; one file per subject."""

from .costs import cost_figure, relative_figure
from .detection import detection_figure
from .scatter import scatter_figure
from .style import page_svg, save_figure

__all__ = [
    "cost_figure",
    "detection_figure",
    "page_svg",
    "relative_figure",
    "save_figure",
    "scatter_figure",
]
