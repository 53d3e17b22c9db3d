"""Figures of traces, predictions and costs, for files and for HTML pages; one file per subject."""

from epochcast.analyzer.figures.costs import cost_figure
from epochcast.analyzer.figures.detection import detection_figure
from epochcast.analyzer.figures.style import page_svg, save_figure

__all__ = [
    "cost_figure",
    "detection_figure",
    "page_svg",
    "save_figure",
]
