"""The figures of commands and pages: a trace and its epochs, cost against time, ratios, and the lines and bars of answers.

Series differ by position, line style and marker as well as by colour (Okabe and Ito's colour-blind safe palette).
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FixedLocator, LogLocator, NullFormatter, NullLocator, PercentFormatter
from numpy.typing import ArrayLike, NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.cycles import no_answer
from epochcast.analyzer.plugins.chart import Chart, Line
from epochcast.analyzer.traces.trace import Trace
from epochcast.analyzer.words import length, time_unit
from epochcast.common.files import write_whole
from epochcast.detector import Detection, Epoch, Stretch
from epochcast.regressor.prediction import Estimate

if TYPE_CHECKING:
    from epochcast.analyzer.jobs.job import Job
    from epochcast.analyzer.jobs.rank import Placement

Floats = NDArray[np.float64]

BLUE, ORANGE, GREEN = "#2b83ba", "#d55e00", "#009e73"
_PAGE = "#010203"  # represents the page's text colour while drawing
_STYLE = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), _PAGE),
    "grid.alpha": 0.15,
    "axes.grid": True,
    "axes.axisbelow": True,
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
_DASHED: Any = (0, (4, 2))


@contextmanager
def drawing() -> Iterator[None]:
    """The look of all figures, while one is drawn or saved."""
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        yield


def save_figure(figure: Figure, path: Path, *, simulated: bool = False) -> Path:
    """Write ``figure`` to a file, whole or not at all; raises InputError unless ``path`` ends in .png, .svg or .pdf.

    Of ``simulated`` telemetry, the figure says so.
    """
    if path.suffix not in _FORMATS:
        raise InputError(f"cannot draw to {str(path)!r}: name a file that ends in {', '.join(_FORMATS)}")
    if simulated:
        figure.suptitle("from simulated telemetry", x=0.01, ha="left", fontsize=10)
    with drawing():
        return write_whole(path, lambda file: figure.savefig(file, format=path.suffix[1:], dpi=150))


def page_svg(figure: Figure) -> bytes:
    """The figure as one ``<svg>`` element whose text and axes take the page's own colour, light or dark."""
    buffer = io.StringIO()
    with drawing():
        # Laid out for good, on rounded positions: the solver's last digits vary, and identifiers are made of them.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        for axes in figure.axes:
            left, bottom, width, height = (round(float(part), 6) for part in axes.get_position().bounds)
            axes.set_position((left, bottom, width, height))
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(_PAGE, "currentColor").encode()


def plain_log_axis(axis: XAxis | YAxis, unit: str = "") -> None:
    """Make the axis of what is drawn already logarithmic, its ticks written out (no powers of ten), each with ``unit``."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 10 * low else (1, 1.5, 2, 3, 4, 5, 6, 8)))
    axis.set_major_formatter(lambda value, _: np.format_float_positional(value, precision=6, fractional=False, trim="-") + unit)
    axis.set_minor_formatter(NullFormatter())


# --- A trace and what a detection method saw in it ---

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


def detection_figure(trace: Trace, detection: Detection, *, title: str, true_starts: Sequence[float] = ()) -> Figure:
    """Metrics of a trace and the method's scores over time, with the detected epochs; the answer follows ``title``.

    On top are the epochs of each job, or the stretches of a trace without one period, shaded by their confidence; below are,
    where there are any, a few of many epochs, and the candidate periods.

    ``true_starts``: true epoch starts [unix s], marked where they are known.
    """
    origin, end = float(trace.time[0]), float(trace.time[-1])
    unit, unit_s = ("minutes", 60.0) if end - origin >= 600 else ("seconds", 1.0)

    def at(time: ArrayLike) -> Floats:
        return np.asarray((np.asarray(time, dtype=np.float64) - origin) / unit_s)

    time, epochs = at(trace.time), at([(epoch.start, epoch.end) for epoch in detection.epochs]).reshape(-1, 2)
    ribbon = _rows(detection)
    filled = [name for name in trace.metric_names if trace.frame[name].notna().any()]
    metrics = trace.metrics(([name for name in _SHOWN if name in filled] or filled)[:_MOST_SHOWN])
    scores = {name: score for name, score in detection.scores.items() if score.shape == time.shape}
    panels = [name for name in scores if not name.startswith("luminol")]  # of the paper's passes: drawn behind the smoothed one
    close_up = bool(detection.period_s and metrics and (end - origin) / detection.period_s > _MOST_LINES)
    candidates = detection.scores.get("candidate_period", np.empty(0)).size > 0
    details = close_up + candidates
    heights = [0.22 * len(ribbon)] * bool(ribbon) + [1.05] * len(metrics) + [0.85] * len(panels) + [1.7] * bool(details)
    with drawing():
        figure = Figure(figsize=(10, 1.3 + sum(heights)), layout="constrained")
        rows = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        top = figure.add_subplot(rows[0])
        over_time = [top] + [figure.add_subplot(rows[row], sharex=top) for row in range(1, len(heights) - bool(details))]
        top.set_xlim(0, float(at(end)))
        if ribbon:
            _ribbon(top, ribbon, at)
        drawn = over_time[bool(ribbon) :]
        for axes, (name, values) in zip(drawn, metrics.items(), strict=False):
            _panel(axes, name, time, values, BLUE)
            if np.nanmax(np.abs(values), initial=0.0) >= 1000:
                axes.yaxis.set_major_formatter(EngFormatter(sep=""))
        for axes, name in zip(drawn[len(metrics) :], panels, strict=True):
            if (raw := scores.get(name.replace("pass", "luminol"))) is not None:
                draw_series(axes, time, raw, color="0.6")
            _panel(axes, name.replace("pass", "score,\npass "), time, scores[name], GREEN)
        for axes in drawn if len(epochs) <= _MOST_LINES else ():
            _mark_epochs(axes, epochs)
        changes = [stretch.end for stretch in detection.stretches[:-1]] + [stretch.start for stretch in detection.stretches[1:]]
        for axes in over_time:
            for place in sorted(set(changes)):
                axes.axvline(float(at(place)), color=_PAGE, linewidth=0.8)
            axes.tick_params(labelbottom=axes is over_time[-1])
        if true_starts:
            places, marker = at(true_starts), "v" if len(true_starts) <= _MOST_LINES else "|"
            above = top.get_xaxis_transform()
            top.plot(places, np.full(places.size, 1.12), marker, color=GREEN, markersize=5, clip_on=False, transform=above)
        over_time[-1].set_xlabel(f"{unit} since the first sample")
        below = iter(rows[len(heights) - 1].subgridspec(1, max(1, details)))
        if close_up:
            axes, (name, values) = figure.add_subplot(next(below)), next(iter(metrics.items()))
            middle = (epochs[0, 0] + epochs[-1, 1]) / 2 if len(epochs) else float(at(end)) / 2
            half = _PERIODS_IN_DETAIL / 2 * (detection.period_s or 0.0) / unit_s
            shown = np.abs(time - middle) <= half
            draw_series(axes, time[shown], values[shown], color=BLUE)
            _mark_epochs(axes, epochs)
            axes.set(xlim=(middle - half, middle + half), title=f"close-up: {name}", xlabel=f"{unit} since the first sample")
            axes.grid(axis="x", visible=False)
        if candidates:
            _candidates(figure.add_subplot(next(below)), detection)
        figure.suptitle(f"{title}\n{_answer(detection)}", x=0.01, ha="left", fontsize=10)
        if handles := _explained(detection, bool(true_starts)):
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


def _rows(detection: Detection) -> dict[str, Sequence[Epoch | Stretch]]:
    """What the ribbon shows, by name: the epochs of each job; without an answer, the stretches."""
    jobs = [epochs for epochs in [job.epochs for job in detection.jobs] or [detection.epochs] if epochs]
    if not jobs:
        return {"stretches": detection.stretches} if detection.stretches else {}
    return {f"job {index}": epochs for index, epochs in enumerate(jobs, start=1)} if len(jobs) > 1 else {"epochs": jobs[0]}


def _ribbon(axes: Axes, rows: Mapping[str, Sequence[Epoch | Stretch]], at: Any) -> None:
    """One row per job, one bar per epoch or stretch, shaded by its confidence, which wide bars also tell as a number."""
    for row, parts in enumerate(rows.values()):
        spans = [(start, end - start) for start, end in at([(part.start, part.end) for part in parts])]
        shades = [next(shade for bound, (shade, _) in _SHADES.items() if part.confidence >= bound) for part in parts]
        edge = 0.6 if len(spans) <= 4 * _MOST_LINES else 0.0
        axes.broken_barh(spans, (-row - 0.42, 0.84), facecolors=shades, edgecolors="white", linewidth=edge)
        for (start, wide), part in zip(spans, parts, strict=True):
            if wide >= _WIDTH_OF_A_NUMBER * axes.get_xlim()[1]:
                text = f"{part.confidence:.2f}" if isinstance(part, Epoch) else length(part.period_s)
                color = "white" if part.confidence >= 0.8 else "black"
                axes.text(start + wide / 2, -row, text, ha="center", va="center_baseline", fontsize=7, color=color)
    axes.set_yticks([-row for row in range(len(rows))], list(rows))
    axes.set_ylim(-len(rows) + 0.5, 0.5)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)


def _panel(axes: Axes, name: str, time: Floats, values: Floats, color: str) -> None:
    draw_series(axes, time, values, color=color)
    axes.set_ylabel(name.replace("_", "\n", 1), rotation=0, ha="right", va="center")
    axes.locator_params(axis="y", nbins=4)
    axes.grid(axis="x", visible=False)


def _mark_epochs(axes: Axes, epochs: Floats) -> None:
    """Every other epoch tinted, and a line at each boundary; ``epochs`` (n, 2) starts and ends."""
    for start, end in epochs[::2]:
        axes.axvspan(start, end, color=ORANGE, alpha=0.08, linewidth=0)
    places = [*epochs[:, 0], *epochs[-1:, 1]]
    lines = [((place, 0.0), (place, 1.0)) for place in places]
    across = axes.get_xaxis_transform()
    axes.add_collection(
        LineCollection(lines, colors=ORANGE, linewidths=0.9, linestyles=[_DASHED], transform=across), autolim=False
    )


def _candidates(axes: Axes, detection: Detection) -> None:
    """Candidate periods and the evidence for each, with the period that was answered."""
    period, quality = detection.scores["candidate_period"], detection.scores["candidate_quality"]
    axes.vlines(period, 0, quality, color=BLUE, linewidth=1.2)
    axes.plot(period, quality, "o", color=BLUE, markersize=4)
    answer = detection.period_s if detection.clock == "wall" else detection.period_work
    if answer is not None:
        axes.axvline(answer, color=ORANGE, linewidth=0.9, linestyle=_DASHED)
    low, high = float(period.min()) / 1.5, float(period.max()) * 1.5
    wider = max(1.0, np.sqrt(10 * low / high))  # at least a decade, for ticks to read it by
    axes.set_xlim(low / wider, high * wider)
    plain_log_axis(axes.xaxis)
    axes.set_ylim(0, 1.05 * max(1.0, float(quality.max())))
    axes.set_title("candidate periods: evidence [nats]" + (", answer dashed" if answer is not None else ""))
    axes.set_xlabel("seconds" if detection.clock == "wall" else "seconds of work")


def _explained(detection: Detection, truth: bool) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = []
    if truth:
        handles.append(Line2D([], [], color=GREEN, marker="v", linestyle="", label="true epoch start"))
    if detection.epochs:
        handles.append(Line2D([], [], color=ORANGE, linestyle=_DASHED, label="detected boundary"))
    if len(detection.stretches) > 1:
        handles.append(Line2D([], [], color=_PAGE, linewidth=0.8, label="stretch boundary"))
    if detection.epochs or detection.stretches:
        shades = [Patch(color=shade, label=label) for shade, label in _SHADES.values()]
        shades[0].set_label(f"confidence {shades[0].get_label()}")
        handles += shades
    return handles


# About one per pixel of a panel as wide as a page.
_COLUMNS = 1200

# A pause between readings this many times the usual one is a hole: no line crosses it.
_HOLE = 10.0


def draw_series(axes: Axes, time: Floats, values: Floats, *, color: str) -> None:
    """Draw the readings (NaN: none at this time); if there are too many to distinguish, their mean and range per column.

    A line through every sample of a long trace would be a solid band that hides the epochs.
    """
    read = ~np.isnan(values)
    time, values = time[read], values[read]
    if time.size > 2 * _COLUMNS:
        edges = np.linspace(time[0], time[-1], _COLUMNS + 1)[:-1]
        first = np.unique(np.searchsorted(time, edges))  # of each column that holds a reading
        low, high = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
        values = np.add.reduceat(values, first) / np.diff(np.append(first, time.size))
        time = time[first]
        axes.fill_between(time, low, high, color=color, alpha=0.4, linewidth=0)
    if time.size > 2:
        steps = np.diff(time)
        holes = np.flatnonzero(steps > _HOLE * np.median(steps)) + 1
        time, values = np.insert(time, holes, np.nan), np.insert(values, holes, np.nan)
    axes.plot(time, values, color=color, linewidth=0.9)


# --- What instances cost and how long they take ---

_DOT: Mapping[str, Any] = {"color": BLUE, "marker": "o", "markersize": 5, "alpha": 0.6, "linestyle": ""}
_MOST_NAMES = 2  # of instances at the same place; the rest are counted
_LONGEST_NAME = 32  # a price file can say anything


def cost_figure(
    recommendations: Sequence[Placement], *, deadline_s: float | None = None, budget_usd: float | None = None
) -> Figure:
    """Time against cost on log axes; what is on the front (`Placement.pareto`) is numbered, named and has its intervals.

    Instances without the memory, or expected past the deadline [s] or above the budget [USD], are hollow, and both limits are
    lines where they are near. Without seconds time is relative to the source GPU, and cost is that of what takes it an hour.

    Raises InputError if there are no recommendations.
    """
    if not recommendations:
        raise InputError("no instance meets the limits, so there is nothing to draw; loosen them")
    times, costs = ([interval(row).value for row in recommendations] for interval in (time_interval, cost_interval))
    known = all(row.seconds is not None for row in recommendations)
    unit = time_unit(times)
    unit_s = unit.seconds if known else 1.0
    front: dict[tuple[float, float], list[Placement]] = {}  # several at a place: one price in several clouds or regions
    others: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for row, seconds, usd in sorted(zip(recommendations, times, costs, strict=True), key=lambda each: each[1:]):
        if row.pareto:
            front.setdefault((seconds, usd), []).append(row)
        else:
            late, dear = deadline_s is not None and seconds > deadline_s, budget_usd is not None and usd > budget_usd
            others[row.fits is False or late or dear].append((seconds / unit_s, usd))
    with drawing():
        figure = Figure(figsize=(10, max(4.6, 1.5 + 0.25 * len(front))), layout="constrained")
        axes = figure.subplots()
        marks = {"90 % interval": Line2D([], [], color=ORANGE, linewidth=1)} if front else {}
        for misses, name in ((False, "others"), (True, "too little memory, or over a limit")):
            if places := others[misses]:
                look = {**_DOT, "markerfacecolor": "none" if misses else BLUE}
                (marks[name],) = axes.plot([x for x, _ in places], [y for _, y in places], **look)
        discs = [_disc(axes, number, rows[0], unit_s) for number, rows in enumerate(front.values(), start=1)]
        if deadline_s is not None and _is_near(deadline_s, times):
            marks["deadline"] = axes.axvline(deadline_s / unit_s, color=GREEN, linestyle="--", linewidth=1)
        if budget_usd is not None and _is_near(budget_usd, costs):
            marks["budget"] = axes.axhline(budget_usd, color=GREEN, linestyle=":", linewidth=1.4)
        axes.margins(0.08)
        plain_log_axis(axes.xaxis)
        plain_log_axis(axes.yaxis)
        axes.set_xlabel(f"time [{unit.name}]" if known else "time relative to the source GPU")
        axes.set_ylabel("cost [USD]" if known else "cost of one hour's work of the source GPU [USD]")
        if front:  # named next to the axes, where names cannot overlap
            names = figure.legend(
                discs,
                [_names(rows) for rows in front.values()],
                loc="outside right upper",
                handler_map={tuple: HandlerTuple(ndivide=1)},
                labelspacing=0.9,
                title="no instance is both faster and cheaper",
                alignment="left",
            )
            for text in names.get_texts():
                text.set_parse_math(False)
        figure.legend(list(marks.values()), list(marks), loc="outside lower left", ncols=len(marks))
        return figure


def _disc(axes: Axes, number: int, row: Placement, unit_s: float) -> Any:
    """Draw a numbered disc with the intervals behind it; returns what a legend draws of it, disc and digits."""
    seconds, usd = time_interval(row), cost_interval(row)
    x, y = seconds.value / unit_s, usd.value
    axes.plot([seconds.low / unit_s, seconds.high / unit_s], [y, y], color=ORANGE, linewidth=1, alpha=0.6)
    axes.plot([x, x], [usd.low, usd.high], color=ORANGE, linewidth=1, alpha=0.6)
    (disc,) = axes.plot(x, y, "o", color=ORANGE, markersize=13, linestyle="", zorder=3)
    (digits,) = axes.plot(x, y, color="white", marker=f"${number}$", markersize=6 + 2 * (number > 9), linestyle="", zorder=3)
    return disc, digits


def _names(rows: Sequence[Placement]) -> str:
    names = list(dict.fromkeys(short_name(row) for row in rows))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more} ({rows[0].instance.gpu})"


def _is_near(limit: float, values: Sequence[float]) -> bool:
    """Whether a line there leaves the instances room: at most a decade off."""
    return min(values) / 10 <= limit <= 10 * max(values)


def time_interval(row: Placement) -> Estimate:
    """Seconds of the job; without them the ratio to the source GPU."""
    if row.seconds is not None:
        return row.seconds
    return Estimate(row.prediction.ratio, row.prediction.ratio_low, row.prediction.ratio_high)


def cost_interval(row: Placement) -> Estimate:
    """USD of the job; without seconds USD for what takes the source GPU an hour."""
    return time_interval(row).times(row.usd_per_hour) if row.usd is None else row.usd


def short_name(row: Placement) -> str:
    """Name of the instance, cut where it would crowd out the figure."""
    name = row.instance.name
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


# --- The charts of answers ---

_PER_ROW = 3
_MOST_TICKS = 7
_LINES = ((BLUE, "o-"), (ORANGE, "s--"))
_BARS = (("#4d4d4d", ""), ("#a6a6a6", ""), (BLUE, ""), (GREEN, ""), (BLUE, "////"), (GREEN, "////"), (ORANGE, ""))


def chart_figure(chart: Chart) -> Figure:
    """Three panels in a row, with lines over sizes or a group of bars for each name."""
    columns = min(len(chart.panels), _PER_ROW)
    rows = math.ceil(len(chart.panels) / columns)
    first = next(iter(chart.panels.values()))
    bars = len(first) * len(first[0].places) if isinstance(first[0].places[0], str) else 0  # in a panel
    with drawing():
        wide = max(3.2, 1.2 + 0.26 * bars)
        figure = Figure(figsize=(max(wide * columns, 6.4), 0.7 + (2.9 if bars else 2.4) * rows), layout="constrained")
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes in panels[len(chart.panels) :]:
            axes.remove()
        for place, (title, lines) in enumerate(chart.panels.items()):
            axes = panels[place]
            (_draw_bars if bars else _draw_lines)(axes, lines)
            axes.set_ylim(bottom=0)
            if chart.unit == "%":
                axes.set_ylim(0, 1.03)
                axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol=" %"))
            elif chart.unit:
                axes.yaxis.set_major_formatter(EngFormatter(chart.unit))
            axes.set_title(title, parse_math=False)
            axes.set_xlabel(chart.xlabel * (place + columns >= len(chart.panels)))  # below the lowest of each column
        figure.supylabel(chart.ylabel, fontsize="medium")
        handles = {mark.get_label(): mark for axes in figure.axes for mark in axes.get_legend_handles_labels()[0]}
        figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=6 if bars else 2)
        return figure


def _draw_lines(axes: Axes, lines: Sequence[Line]) -> None:
    for number, line in enumerate(line for line in lines if line.values):
        color, form = _LINES[number % len(_LINES)]
        values, low, high = (np.array(each, dtype=float) for each in (line.values, line.low, line.high))
        look: Any = {"linewidth": 1.2, "markersize": 3, "mfc": "white" if line.assumed else None, "zorder": 3 - 0.1 * number}
        axes.plot(line.places, values, form, color=color, label=line.name, **look)
        if np.isfinite(low).any():
            axes.fill_between(line.places, low, high, color=color, alpha=0.2, linewidth=0, label="90 % interval")
    for line in lines:
        for place in () if line.values else line.places:
            axes.axvline(float(place), color=GREEN, linestyle=":", linewidth=1.2, label=line.name)
    sizes = np.array(lines[0].places, dtype=float)
    if sizes[-1] >= 8 * sizes[0]:
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(sizes[:: math.ceil(len(sizes) / _MOST_TICKS)])))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _draw_bars(axes: Axes, lines: Sequence[Line]) -> None:
    width = 0.84 / len(lines)
    for number, line in enumerate(lines):
        color, hatch = _BARS[number % len(_BARS)]
        values, low, high = (np.array(each, dtype=float) for each in (line.values, line.low, line.high))
        places = np.arange(values.size) + (number - (len(lines) - 1) / 2) * width
        error = (values - low, high - values) if np.isfinite(low).any() else None
        look: Any = {"facecolor": "none", "edgecolor": color, "hatch": hatch} if hatch else {"color": color}
        axes.bar(places, values, 0.9 * width, label=line.name, yerr=error, capsize=2, linewidth=0.8, **look)
        for place in places[[value is None for value in line.values]]:
            look = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": 7, "color": color}
            axes.annotate("OOM", (place, 0), (0, 2), rotation=90, **look)
    axes.set_xticks(range(len(lines[0].places)), [str(place) for place in lines[0].places])
    axes.set_xlim(-0.6, len(lines[0].places) - 0.4)  # also where the first bars are missing
    axes.tick_params(axis="x", length=0)
    axes.grid(axis="x", visible=False)


def ratios_figure(job: Job) -> Figure:
    """Predicted time on every GPU that holds the job relative to the source, with its 90 % interval, on a log axis.

    Where nothing was measured on one of the two GPUs, the point is hollow.
    """
    source, fitting = job.here.profile.gpu, [target for target in job.predictions if target.fits is not False]
    ranked = sorted(fitting, key=lambda target: target.ratio, reverse=True)
    with drawing():
        figure = Figure(figsize=(10, 0.9 + 0.24 * len(ranked)), layout="constrained")
        axes = figure.subplots()
        for place, row in enumerate(ranked):
            color = ORANGE if row.gpu == source else BLUE
            axes.plot(
                [row.ratio_low, row.ratio_high], [place] * 2, color=BLUE, linewidth=2.5, alpha=0.45, solid_capstyle="butt"
            )
            fill = "white" if row.by_data_sheet else color
            axes.plot(row.ratio, place, "o", color=color, markerfacecolor=fill, markersize=5)
        axes.axvline(1, color=ORANGE, linewidth=1, linestyle=_DASHED)
        axes.set_yticks(range(len(ranked)), [row.gpu for row in ranked])
        axes.set_ylim(-0.7, len(ranked) - 0.3)
        plain_log_axis(axes.xaxis, "×")
        hollow = "; hollow: from a data sheet" * any(row.by_data_sheet for row in ranked)
        axes.set_xlabel(f"time relative to the {source} (dashed); bar: 90 % interval; left is faster{hollow}")
        return figure
