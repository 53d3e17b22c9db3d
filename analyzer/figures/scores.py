"""A method's diagnostics (`Detection.scores`): panels over the trace's time, and panels with axes of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from epochcast.analyzer.figures.style import BLUE, GREEN, ORANGE, draw_series
from epochcast.detector import Detection

_LUMINOL, _SMOOTHED = "luminol", "pass"


@dataclass(frozen=True)
class ScorePanel:
    """One panel of scores at the samples' times.

    Attributes:
        name: the label next to it.
        score: (n,) drawn in front.
        raw: (n,) the same before smoothing, drawn behind; None where the method gives none.
        peaks: whether the boundaries are peaks of the score, and marked as such.
    """

    name: str
    score: NDArray[np.float64]
    raw: NDArray[np.float64] | None = None
    peaks: bool = False

    def draw(self, axes: Axes, time: NDArray[np.float64], boundaries: NDArray[np.float64]) -> None:
        """Draw at ``time`` (n,), with the method's boundaries on the same axis."""
        if self.raw is not None:
            draw_series(axes, time, self.raw, color="0.6", width=0.7)
        draw_series(axes, time, self.score, color=GREEN, width=1.1)
        if self.peaks:
            size = 4.0 if boundaries.size <= 60 else 2.0
            axes.plot(boundaries, np.interp(boundaries, time, self.score), "v", color=ORANGE, markersize=size)
        axes.set_ylabel(self.name, rotation=0, ha="right", va="center")
        axes.locator_params(axis="y", nbins=4)
        axes.grid(axis="x", visible=False)


def score_panels(detection: Detection, time: NDArray[np.float64]) -> list[ScorePanel]:
    """The scores that follow the trace's time, in the method's order; a pass of the paper's recipe is one panel."""
    scores = {name: score for name, score in detection.scores.items() if score.shape == time.shape}
    passes = [name for name in scores if name.startswith(_SMOOTHED) and name.removeprefix(_SMOOTHED).isdigit()]
    raw = {name: scores.get(_LUMINOL + name.removeprefix(_SMOOTHED)) for name in passes}
    behind = {_LUMINOL + name.removeprefix(_SMOOTHED) for name in passes}
    panels = []
    for name, score in scores.items():
        if name in passes:
            panels.append(ScorePanel(name.replace(_SMOOTHED, "score,\npass "), score, raw[name], peaks=name == passes[-1]))
        elif name not in behind:
            panels.append(ScorePanel(name.replace("_", "\n", 1), score))
    return panels


def has_candidates(detection: Detection) -> bool:
    """Whether the method gives the candidate periods that it weighed."""
    return {"candidate_period", "candidate_quality"} <= detection.scores.keys() and detection.scores[
        "candidate_period"
    ].size > 0


def candidates_panel(axes: Axes, detection: Detection) -> None:
    """Candidate periods and the evidence for each, with the period that was answered."""
    period, quality = detection.scores["candidate_period"], detection.scores["candidate_quality"]
    axes.vlines(period, 0, quality, color=BLUE, linewidth=1.2)
    axes.plot(period, quality, "o", color=BLUE, markersize=4)
    answer = detection.period_s if detection.clock == "wall" else detection.period_work
    if answer is not None:
        axes.axvline(answer, color=ORANGE, linewidth=0.9, linestyle=(0, (4, 2)))
    axes.set_xscale("log")
    low, high = float(period.min()) / 1.5, float(period.max()) * 1.5
    wider = max(1.0, np.sqrt(10 * low / high))  # at least a decade, for ticks to read it by
    axes.set_xlim(low / wider, high * wider)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(0, 1.05 * max(1.0, float(quality.max())))
    axes.set_title("candidate periods: evidence [nats]" + (", answer dashed" if answer is not None else ""))
    axes.set_xlabel(_clock_seconds(detection))


def has_template(detection: Detection) -> bool:
    """Whether the method shows what its boundaries look like."""
    return {"template", "template_time"} <= detection.scores.keys()


def template_panel(axes: Axes, detection: Detection) -> None:
    """What the surroundings of a boundary look like, in the channel that shows it best."""
    axes.plot(detection.scores["template_time"], detection.scores["template"], color=BLUE, linewidth=1.2)
    axes.axvline(0, color=ORANGE, linewidth=0.9, linestyle=(0, (4, 2)))
    axes.set_title("template of a boundary (dashed)")
    axes.set_xlabel(_clock_seconds(detection))
    axes.locator_params(axis="y", nbins=4)


def _clock_seconds(detection: Detection) -> str:
    return "seconds" if detection.clock == "wall" else "seconds of work"
