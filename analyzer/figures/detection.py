"""A trace and what a detection method saw in it.

From top to bottom: the epochs of each job, or the stretches of a trace without one period, shaded by their confidence; the
trace's main metrics; the method's scores over time (for the paper's recipe one panel per pass, as in its Figs. 5 and 6); and,
where there are any, details with axes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray

from epochcast.analyzer.figures.scores import candidates_panel, has_candidates, has_template, score_panels, template_panel
from epochcast.analyzer.figures.style import BLUE, GREEN, ORANGE, draw_series, drawing
from epochcast.analyzer.jobs.cycles import no_answer
from epochcast.analyzer.traces.trace import Trace
from epochcast.analyzer.words import length as in_words
from epochcast.detector import Detection, Epoch, Stretch

# What a person sees the epochs in, best first; the detector looks at every metric.
_SHOWN = (
    *("dram_active", "sm_active", "pcie_tx", "power"),
    *("process_write", "process_cpu_utilization", "process_context_switches", "process_minor_faults"),
    *("cpu_utilization", "context_switches", "minor_faults", "disk_write"),
)
_MOST_SHOWN = 4

# Lower bounds of confidence and their shades: one hue, so that its lightness alone distinguishes them.
_SHADES = {
    0.8: ("#b24a00", "0.8 to 1"),
    0.6: ("#e5792b", "0.6 to 0.8"),
    0.4: ("#f5b282", "0.4 to 0.6"),
    0.0: ("#fae0cd", "less"),
}

# Beyond so many epochs lines at their boundaries would hide the trace; a detail of a few periods shows them instead.
_MOST_LINES = 60
_PERIODS_IN_DETAIL = 6

# A bar of this share of the axis holds its confidence as a number.
_WIDTH_OF_A_NUMBER = 0.035


@dataclass(frozen=True)
class _TimeAxis:
    """Unix seconds to what the axis shows: seconds or minutes since the first sample."""

    origin: float
    end: float
    unit: str
    seconds: float

    @classmethod
    def of(cls, trace: Trace) -> _TimeAxis:
        origin, end = float(trace.time[0]), float(trace.time[-1])
        return cls(origin, end, "minutes", 60.0) if end - origin >= 600 else cls(origin, end, "seconds", 1.0)

    def __call__(self, time: NDArray[np.float64] | Sequence[float] | float) -> NDArray[np.float64]:
        return np.asarray((np.asarray(time, dtype=np.float64) - self.origin) / self.seconds)


def detection_figure(trace: Trace, detection: Detection, *, title: str, true_starts: Sequence[float] = ()) -> Figure:
    """Metrics of a trace and the method's scores over time, with the detected epochs; the answer follows ``title``.

    ``true_starts``: true epoch starts [unix s], marked where they are known.
    """
    axis = _TimeAxis.of(trace)
    ribbon = _rows(detection)
    metrics = _metrics(trace)
    scores = score_panels(detection, trace.time)
    details = _details(trace, detection, metrics, axis)
    heights = [0.22 * len(ribbon)] * bool(ribbon) + [1.05] * len(metrics) + [0.85] * len(scores) + [1.7] * bool(details)
    with drawing():
        figure = Figure(figsize=(10, 1.3 + sum(heights)), layout="constrained")
        rows = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        panels = [figure.add_subplot(rows[0])]
        panels += [figure.add_subplot(rows[row], sharex=panels[0]) for row in range(1, len(heights) - bool(details))]
        if ribbon:
            _ribbon(panels[0], ribbon, axis)
        over_time = panels[bool(ribbon) :]
        for axes, (name, values) in zip(over_time[: len(metrics)], metrics.items(), strict=True):
            _metric(axes, name, axis(trace.time), values)
        for axes, panel in zip(over_time[len(metrics) :], scores, strict=True):
            panel.draw(axes, axis(trace.time), axis(_boundaries(detection)))
        for axes in over_time:
            _mark_epochs(axes, detection, axis)
        for axes in panels:
            _mark_changes(axes, detection, axis)
        for axes in panels[:-1]:
            axes.tick_params(labelbottom=False)
        if true_starts:
            _mark_truth(panels[0], axis(true_starts))
        panels[-1].set_xlim(0, float(axis(axis.end)))
        panels[-1].set_xlabel(f"{axis.unit} since the first sample")
        if details:
            row = rows[len(heights) - 1].subgridspec(1, len(details))
            for column, draw in enumerate(details):
                draw(figure.add_subplot(row[column]))
        figure.suptitle(f"{title}\n{_answer(detection)}", x=0.01, ha="left", fontsize=10)
        if handles := _legend(detection, bool(true_starts)):
            figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), handlelength=1.6, columnspacing=1.4)
        return figure


def _answer(detection: Detection) -> str:
    how = f"confidence {detection.confidence:.2f} (method {detection.method}, {detection.clock} clock)"
    if detection.verdict == "none":
        return no_answer(detection) or f"no answer, {how}"
    if detection.verdict == "steps":
        return f"steps of {detection.step_s:.2f} s, {how}"
    more = [f"{len(job.epochs)} of {job.period_s:.2f} s" for job in detection.jobs[1:]]
    beside = f"; second job: {', '.join(more)}" if more else ""
    changes = "; the period changes" if len(detection.stretches) > 1 else ""
    return f"{len(detection.epochs)} epochs of {detection.period_s:.2f} s, {how}{beside}{changes}"


def _metrics(trace: Trace) -> dict[str, NDArray[np.float64]]:
    """The metrics that show epochs best, else the trace's first."""
    filled = [name for name in trace.metric_names if trace.frame[name].notna().any()]
    names = [name for name in _SHOWN if name in filled] or filled
    return trace.metrics(names[:_MOST_SHOWN])


def _metric(axes: Axes, name: str, time: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    draw_series(axes, time, values, color=BLUE)
    axes.set_ylabel(name.replace("_", "\n", 1), rotation=0, ha="right", va="center")
    if np.nanmax(np.abs(values), initial=0.0) >= 1000:
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.locator_params(axis="y", nbins=4)
    axes.grid(axis="x", visible=False)


def _rows(detection: Detection) -> dict[str, Sequence[Epoch | Stretch]]:
    """What the ribbon shows, by name: the epochs of each job; without an answer, the stretches."""
    jobs = [epochs for epochs in [job.epochs for job in detection.jobs] or [detection.epochs] if epochs]
    if not jobs:
        return {"stretches": detection.stretches} if detection.stretches else {}
    return {f"job {index}": epochs for index, epochs in enumerate(jobs, start=1)} if len(jobs) > 1 else {"epochs": jobs[0]}


def _ribbon(axes: Axes, rows: Mapping[str, Sequence[Epoch | Stretch]], axis: _TimeAxis) -> None:
    """One row per job, one bar per epoch or stretch, shaded by its confidence."""
    for row, parts in enumerate(rows.values()):
        spans = [(float(axis(part.start)), (part.end - part.start) / axis.seconds) for part in parts]
        shades = [next(shade for bound, (shade, _) in _SHADES.items() if part.confidence >= bound) for part in parts]
        edge = 0.6 if len(spans) <= 4 * _MOST_LINES else 0.0
        axes.broken_barh(spans, (-row - 0.42, 0.84), facecolors=shades, edgecolors="white", linewidth=edge)
        for (start, length), part in zip(spans, parts, strict=True):
            text = f"{part.confidence:.2f}" if isinstance(part, Epoch) else in_words(part.period_s)
            if length >= _WIDTH_OF_A_NUMBER * float(axis(axis.end)):
                light = "white" if part.confidence >= 0.8 else "black"
                place = start + length / 2
                axes.text(place, -row, text, ha="center", va="center_baseline", fontsize=7, color=light)
    axes.set_yticks([-row for row in range(len(rows))], list(rows))
    axes.set_ylim(-len(rows) + 0.5, 0.5)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _mark_epochs(axes: Axes, detection: Detection, axis: _TimeAxis, most: int = _MOST_LINES) -> None:
    """Every other epoch tinted, and a line at each boundary, unless there are too many to see anything else."""
    if len(detection.epochs) > most:
        return
    for epoch in detection.epochs[::2]:
        axes.axvspan(float(axis(epoch.start)), float(axis(epoch.end)), color=ORANGE, alpha=0.08, linewidth=0)
    places = axis(_boundaries(detection))
    lines = [((place, 0.0), (place, 1.0)) for place in places]
    axes.add_collection(
        LineCollection(lines, colors=ORANGE, linewidths=0.9, linestyles=[(0, (4, 2))], transform=axes.get_xaxis_transform()),
        autolim=False,
    )


def _mark_changes(axes: Axes, detection: Detection, axis: _TimeAxis) -> None:
    """A thin line where a stretch ends and where the next one starts."""
    inner = {stretch.end for stretch in detection.stretches[:-1]} | {stretch.start for stretch in detection.stretches[1:]}
    for place in sorted(inner):
        axes.axvline(float(axis(place)), color=rcParams["axes.edgecolor"], linewidth=0.8)


def _mark_truth(axes: Axes, places: NDArray[np.float64]) -> None:
    above = axes.get_xaxis_transform()
    marker, size = ("v", 5.0) if places.size <= _MOST_LINES else ("|", 4.0)
    axes.plot(places, np.full(places.size, 1.12), marker, color=GREEN, markersize=size, clip_on=False, transform=above)


def _details(
    trace: Trace, detection: Detection, metrics: Mapping[str, NDArray[np.float64]], axis: _TimeAxis
) -> list[Callable[[Axes], None]]:
    """What has axes of its own, below the panels over time."""
    details: list[Callable[[Axes], None]] = []
    cycles = (axis.end - axis.origin) / detection.period_s if detection.period_s else 0.0
    if cycles > _MOST_LINES and metrics:
        name, values = next(iter(metrics.items()))
        details.append(lambda axes: _close_up(axes, trace.time, values, name, detection, axis))
    if has_candidates(detection):
        details.append(lambda axes: candidates_panel(axes, detection))
    if has_template(detection):
        details.append(lambda axes: template_panel(axes, detection))
    return details


def _close_up(
    axes: Axes, time: NDArray[np.float64], values: NDArray[np.float64], name: str, detection: Detection, axis: _TimeAxis
) -> None:
    """A few periods from the middle of what was found."""
    middle = (detection.epochs[0].start + detection.epochs[-1].end) / 2 if detection.epochs else (axis.origin + axis.end) / 2
    half = _PERIODS_IN_DETAIL / 2 * (detection.period_s or 0.0)
    low, high = float(axis(middle - half)), float(axis(middle + half))
    shown = (time >= middle - half) & (time <= middle + half)
    draw_series(axes, axis(time[shown]), values[shown], color=BLUE)
    _mark_epochs(axes, detection, axis, most=len(detection.epochs))
    axes.set_xlim(low, high)
    axes.set_title(f"close-up: {name}")
    axes.set_xlabel(f"{axis.unit} since the first sample")
    axes.locator_params(axis="y", nbins=4)
    axes.grid(axis="x", visible=False)


def _legend(detection: Detection, truth: bool) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = []
    if truth:
        handles.append(Line2D([], [], color=GREEN, marker="v", linestyle="", label="true epoch start"))
    if detection.epochs:
        handles.append(Line2D([], [], color=ORANGE, linestyle=(0, (4, 2)), label="detected boundary"))
    if len(detection.stretches) > 1:
        handles.append(Line2D([], [], color=rcParams["axes.edgecolor"], linewidth=0.8, label="stretch boundary"))
    if detection.epochs or detection.stretches:
        shades = [Patch(color=shade, label=label) for shade, label in _SHADES.values()]
        shades[0].set_label(f"confidence {shades[0].get_label()}")
        handles += shades
    return handles


def _boundaries(detection: Detection) -> list[float]:
    return [epoch.start for epoch in detection.epochs] + [epoch.end for epoch in detection.epochs[-1:]]
