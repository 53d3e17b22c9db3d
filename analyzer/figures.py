"""Figures of traces, predictions and costs, for files (``epochcast detect --plot``) and for HTML pages.

Series are told apart by position, line style and marker as well as by colour (Okabe and Ito's colour-blind safe palette).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from ..detector import Detection
from ..regressor import Prediction
from .errors import InputError
from .files import write_whole
from .recommend import Recommendation
from .trace import Trace

_PAGE = "#010203"  # stands for the page's text colour while drawing
_BLUE, _ORANGE, _GREEN = "#2b83ba", "#d55e00", "#009e73"
_STYLE = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), _PAGE),
    "grid.alpha": 0.15,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "font.size": 9,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: searchable, read aloud, in the page's font
    "svg.hashsalt": "epochcast",  # the same figure has the same bytes
}


# What a person sees the epochs in, best first; the detector looks at every metric.
_SHOWN = ("dram_active", "sm_active", "pcie_tx", "power", "cpu_utilization", "context_switches", "minor_faults", "disk_write")
_MOST_SHOWN = 4
_FORMATS = (".png", ".svg", ".pdf")


def detection_figure(trace: Trace, found: Detection, *, title: str, true_starts: Sequence[float] = ()) -> Figure:
    """Metrics of a trace and the method's scores over time, one panel each, with the detected epochs.

    ``true_starts``: true epoch starts [unix s], marked above the first panel where they are known.
    """
    panels_of = _panels(trace, found)
    with _drawing():
        figure = Figure(figsize=(10, 0.9 + 1.15 * len(panels_of)), layout="constrained")
        panels = figure.subplots(len(panels_of), 1, sharex=True, squeeze=False)[:, 0]
        origin = float(trace.time[0])
        for axes, (name, values) in zip(panels, panels_of.items(), strict=True):
            read = ~np.isnan(values)
            axes.plot(trace.time[read] - origin, values[read], color=_BLUE, linewidth=0.9)
            axes.set_ylabel(name.replace("_", "\n", 1), rotation=0, ha="right", va="center")
            if np.max(np.abs(values[read]), initial=0.0) >= 1000:
                axes.yaxis.set_major_formatter(EngFormatter(sep=""))
            axes.locator_params(axis="y", nbins=4)
            axes.grid(axis="x", visible=False)
            for number, epoch in enumerate(found.epochs):
                if number % 2 == 0:
                    axes.axvspan(epoch.start - origin, epoch.end - origin, color=_ORANGE, alpha=0.10, linewidth=0)
            for boundary in _boundaries(found):
                axes.axvline(boundary - origin, color=_ORANGE, linewidth=1.2, linestyle=(0, (4, 2)))
        handles = [Line2D([], [], color=_ORANGE, linestyle=(0, (4, 2)), label="detected boundary")]
        if true_starts:
            marks = [start - origin for start in true_starts]
            above = panels[0].get_xaxis_transform()
            panels[0].plot(marks, [1.06] * len(marks), "v", color=_GREEN, markersize=6, clip_on=False, transform=above)
            handles.insert(0, Line2D([], [], color=_GREEN, marker="v", linestyle="", label="true epoch start"))
        panels[-1].set_xlabel("seconds since the first sample")
        panels[-1].set_xlim(0, float(trace.time[-1]) - origin)
        figure.legend(handles=handles, loc="outside upper right", ncols=2)
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
        return figure


def _panels(trace: Trace, found: Detection) -> dict[str, NDArray[np.float64]]:
    """The metrics that show epochs best (else the trace's first), then those scores that follow the trace's time."""
    filled = [name for name in trace.metric_names if trace.frame[name].notna().any()]
    names = [name for name in _SHOWN if name in filled] or filled
    scores = {name: score for name, score in found.scores.items() if score.shape == trace.time.shape}
    return trace.metrics(names[:_MOST_SHOWN]) | scores


def predictions_figure(predictions: Sequence[Prediction], source: str) -> Figure:
    """Predicted time on every GPU relative to the ``source`` GPU, with its 90 % interval, on a log axis."""
    ranked = sorted(predictions, key=lambda prediction: prediction.ratio, reverse=True)
    with _drawing():
        figure = Figure(figsize=(10, 0.9 + 0.24 * len(ranked)), layout="constrained")
        axes = figure.subplots()
        for row, prediction in enumerate(ranked):
            low, high = _interval(prediction)
            axes.plot([low, high], [row, row], color=_BLUE, linewidth=2.5, alpha=0.45, solid_capstyle="butt")
            axes.plot(prediction.ratio, row, "o", color=_ORANGE if prediction.gpu == source else _BLUE, markersize=5)
        axes.axvline(1, color=_ORANGE, linewidth=1, linestyle=(0, (4, 2)))
        axes.set_yticks(range(len(ranked)), [prediction.gpu for prediction in ranked])
        axes.set_ylim(-0.7, len(ranked) - 0.3)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
        axes.set_xlabel(f"time relative to the {source} (dashed); bar: 90 % interval; left is faster")
        return figure


def cost_figure(recommendations: Sequence[Recommendation]) -> Figure:
    """Time against cost of every instance, log axes; named are those that none beats in both, the rest are dots."""
    priced = [(r.seconds, r.usd, r.instance.name) for r in recommendations if r.seconds is not None and r.usd is not None]
    with _drawing():
        figure = Figure(figsize=(10, 4.6), layout="constrained")
        axes = figure.subplots()
        best = [p for p in priced if not any(q[0] <= p[0] and q[1] <= p[1] and q[:2] != p[:2] for q in priced)]
        best.sort()
        axes.plot([p[0] for p in priced], [p[1] for p in priced], "o", color=_BLUE, markersize=5, alpha=0.6)
        axes.plot([p[0] for p in best], [p[1] for p in best], "D--", color=_ORANGE, markersize=6, linewidth=1)
        for number, (seconds, usd, name) in enumerate(best):
            # Above and below by turns, so that neighbours' names do not touch; below them no instance can be.
            place, side = ((7, 5), "left") if number % 2 == 0 else ((-7, -11), "right")
            axes.annotate(name, (seconds, usd), xytext=place, textcoords="offset points", ha=side)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(EngFormatter(unit="s"))
        axes.xaxis.set_minor_formatter(EngFormatter(unit="s"))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} USD")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.margins(x=0.2, y=0.12)
        axes.set_xlabel("time (diamonds: no other instance is both faster and cheaper)")
        axes.set_ylabel("cost")
        return figure


def save_figure(figure: Figure, path: Path) -> Path:
    """Write ``figure`` to a file, whole or not at all; raises InputError unless ``path`` ends in .png, .svg or .pdf."""
    if path.suffix not in _FORMATS:
        raise InputError(f"cannot draw to {str(path)!r}: name a file that ends in {', '.join(_FORMATS)}")
    with _drawing():
        return write_whole(path, lambda file: figure.savefig(file, format=path.suffix[1:], dpi=150))


def page_svg(figure: Figure) -> bytes:
    """The figure as one ``<svg>`` element whose text and axes take the page's own colour, light or dark."""
    buffer = io.StringIO()
    with _drawing():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(_PAGE, "currentColor").encode()


def _boundaries(found: Detection) -> list[float]:
    return [epoch.start for epoch in found.epochs] + [epoch.end for epoch in found.epochs[-1:]]


def _interval(prediction: Prediction) -> tuple[float, float]:
    """The prediction's 90 % interval as ratios; the ratio itself where it has no seconds and so no interval."""
    if prediction.seconds is None or prediction.low is None or prediction.high is None:
        return prediction.ratio, prediction.ratio
    return prediction.ratio * prediction.low / prediction.seconds, prediction.ratio * prediction.high / prediction.seconds


@contextmanager
def _drawing() -> Iterator[None]:
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        yield
