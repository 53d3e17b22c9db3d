"""One drawing for each kind of Grafana panel that the dashboards use."""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil, log2, nan
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from .grafana_units import formatted

BACKGROUND, PANEL, TEXT, MUTED, LINE = "#111217", "#181b1f", "#d8d9da", "#8e9099", "#2c3235"
SERIES = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#96d98d")
NAMED = {"green": "#73bf69", "yellow": "#f2cc0c", "red": "#f2495c", "blue": "#5794f2", "light-blue": "#34517f", "text": MUTED}


class Answer(NamedTuple):
    """What a query gave: per series its labels, its legend, its times and values; ``span`` is the time shown [unix s]."""

    ref_id: str
    labels: list[dict[str, str]]
    names: list[str]
    points: list[tuple[list[float], list[float]]]
    span: tuple[float, float]


class Frame:
    """A panel's place on the figure, in pixels from the lower left; ``size`` is the figure's."""

    def __init__(self, figure: Figure, box: tuple[float, ...], size: tuple[int, int], colour: str) -> None:
        self.figure, self.box, self.size, self.colour = figure, box, size, colour

    def titled(self, title: str) -> None:
        """Draw the panel's ground and title."""
        left, bottom, width, height = self._relative(*self.box)
        ground = FancyBboxPatch(
            (left, bottom),
            width,
            height,
            boxstyle="square,pad=0",
            zorder=-1,
            fc=self.colour,
            ec=LINE,
            lw=0.8,
            transform=self.figure.transFigure,
        )
        self.figure.patches.append(ground)
        self.text(10, self.box[3] - 15, title, fontsize=9)

    def heading(self, title: str) -> None:
        """Draw a row's heading."""
        self.text(4, self.box[3] / 2, f"⌄  {title}", fontsize=10.5, weight="bold")

    def axes(self, left: float = 10, bottom: float = 10, right: float = 10, top: float = 30) -> Axes:
        """Return axes inside the panel, with margins in pixels."""
        x, y, width, height = self.box
        inside = self._relative(x + left, y + bottom, width - left - right, height - top - bottom)
        axes = self.figure.add_axes(inside, facecolor="none")
        axes.tick_params(colors=MUTED, labelsize=7.5, length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        return axes

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        """Write a text at pixels from the panel's lower left."""
        self.figure.text((self.box[0] + x) / self.size[0], (self.box[1] + y) / self.size[1], text, va="center", **style)

    def _relative(self, x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
        return x / self.size[0], y / self.size[1], width / self.size[0], height / self.size[1]


def stat(frame: Frame, panel: dict[str, Any], answers: list[Answer], marks: list[float]) -> None:
    """Draw one figure."""
    axes = frame.axes()
    axes.axis("off")
    defaults = panel["fieldConfig"]["defaults"]
    (answer,) = answers
    text, colour = defaults["noValue"], MUTED
    if answer.points:
        value = answer.points[0][1][-1]
        text, colour = _words(defaults.get("mappings", []), value) or (
            formatted(value, defaults["unit"], defaults.get("decimals")),
            _step_colour(defaults, value),
        )
        if panel["options"]["textMode"] == "name":
            text = answer.names[0]
    size = min(26, 1.55 * frame.box[2] / max(6, len(text)))
    axes.text(0.5, 0.45, text, fontsize=size, color=colour, ha="center", va="center", weight="bold")


def timeseries(frame: Frame, panel: dict[str, Any], answers: list[Answer], marks: list[float]) -> None:
    """Draw lines, with a legend that has the newest value and the mean."""
    series = [
        (name, points) for answer in answers for name, points in zip(answer.names, answer.points, strict=True) if points[0]
    ]
    shown = min(len(series), max(2, int((frame.box[3] - 150) / 16)))
    axes = frame.axes(left=66, bottom=34 + 16 * shown, right=14)
    defaults = panel["fieldConfig"]["defaults"]
    unit = defaults["unit"]
    stairs = defaults["custom"].get("lineInterpolation") == "stepAfter"
    for place, (name, (times, values)) in enumerate(series):
        colour = SERIES[place % len(SERIES)]
        axes.plot(times, values, color=colour, lw=1.1, drawstyle="steps-post" if stairs else "default")
        if len(series) <= 4 and defaults.get("min") == 0:
            axes.fill_between(times, values, 0, color=colour, alpha=0.05, lw=0)
        if place < shown:
            mean = sum(values) / len(values)
            y = 14 + 16 * (shown - 1 - place)
            frame.text(14, y, "▬", color=colour, fontsize=8)
            last = place == shown - 1 and len(series) > shown
            frame.text(30, y, name + (f"   … and {len(series) - shown} more" if last else ""), fontsize=7.5)
            frame.text(frame.box[2] - 118, y, formatted(values[-1], unit), fontsize=7.5, ha="right")
            frame.text(frame.box[2] - 14, y, f"mean {formatted(mean, unit)}", fontsize=7.5, ha="right", color=MUTED)
    _time_axis(axes, answers[0].span)
    for mark in marks:
        axes.axvline(mark, color="#f2cc0c", lw=0.7, ls=(0, (4, 3)), alpha=0.55)
    if defaults["custom"].get("thresholdsStyle", {}).get("mode") == "dashed":
        for step in defaults["thresholds"]["steps"][1:]:
            axes.axhline(step["value"], color=NAMED[step["color"]], lw=0.9, ls="--", alpha=0.8)
    low, high = axes.get_ylim()
    low, high = defaults.get("min", low), defaults.get("max", high)
    axes.set_ylim(low, high if high > low else low + 1)
    _value_axis(axes, unit)
    axes.grid(color=LINE, lw=0.7)
    axes.set_axisbelow(True)
    if not series:
        axes.text(0.5, 0.5, "No data", transform=axes.transAxes, ha="center", color=MUTED, fontsize=11)


def state_timeline(frame: Frame, panel: dict[str, Any], answers: list[Answer], marks: list[float]) -> None:
    """Draw a bar for each series whose colour is its state."""
    (answer,) = answers
    axes = frame.axes(left=96, bottom=44, right=14)
    mappings = panel["fieldConfig"]["defaults"]["mappings"]
    order = sorted(range(len(answer.names)), key=lambda place: answer.names[place])
    for y, place in enumerate(reversed(order)):
        times, values = answer.points[place]
        edges = [0, *(k for k in range(1, len(values)) if values[k] != values[k - 1]), len(values)]
        for start, stop in pairwise(edges):
            until = times[stop] if stop < len(times) else times[-1]
            word, colour = _words(mappings, values[start]) or ("?", MUTED)
            axes.barh(
                y, until - times[start], left=times[start], height=0.8, color=colour, alpha=0.85 if colour != MUTED else 0.3
            )
            if until - times[start] > 0.09 * (answer.span[1] - answer.span[0]):
                axes.text(
                    (until + times[start]) / 2,
                    y,
                    word,
                    ha="center",
                    va="center",
                    fontsize=7.5,
                    color=TEXT if colour == MUTED else BACKGROUND,
                )
    axes.set_yticks(range(len(order)), [answer.names[place] for place in reversed(order)])
    axes.tick_params(axis="y", labelcolor=TEXT)
    _time_axis(axes, answer.span)
    for place, (word, colour) in enumerate(_words(mappings, value) or ("", MUTED) for value in (0, 1, 2)):
        frame.text(20 + 90 * place, 14, "■", color=colour, fontsize=9)
        frame.text(34 + 90 * place, 14, word, fontsize=7.5)


def table(frame: Frame, panel: dict[str, Any], answers: list[Answer], marks: list[float]) -> None:
    """Draw the joined and organised table."""
    axes = frame.axes(left=14, right=14, top=34)
    axes.axis("off")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    columns, lines = _joined(panel, answers)
    style = {one["matcher"]["options"]: {p["id"]: p["value"] for p in one["properties"]} for one in _overrides(panel)}
    texts = [[_cell(line.get(column), style.get(column, {})) for column in columns] for line in lines]
    wide = (
        [
            max(6, len(column), *(len(text) for text, _ in cells))
            for column, cells in zip(columns, zip(*texts, strict=True), strict=True)
        ]
        if texts
        else [max(6, len(column)) for column in columns]
    )
    starts = [sum(wide[:place]) / sum(wide) for place in range(len(wide))]
    height = 22 / (frame.box[3] - 44)
    for column, x in zip(columns, starts, strict=True):
        axes.text(x, 1 - height / 2, column, color="#6e9fff", fontsize=8, va="center")
    axes.axhline(1 - height, color=LINE, lw=1)
    for number, cells in enumerate(texts):
        y = 1 - height * (number + 1.5)
        if y < height / 2 - 0.01:
            break
        for (text, colour), x in zip(cells, starts, strict=True):
            axes.text(x, y, text, color=colour, fontsize=8, va="center")
        axes.axhline(y - height / 2, color=LINE, lw=0.5)


def bargauge(frame: Frame, panel: dict[str, Any], answers: list[Answer], marks: list[float]) -> None:
    """Draw a horizontal bar for each series."""
    (answer,) = answers
    defaults = panel["fieldConfig"]["defaults"]
    values = [points[1][-1] for points in answer.points]
    widest = max((len(name) for name in answer.names), default=4)
    axes = frame.axes(left=24 + 6.2 * widest, right=70)
    for y, (name, value) in enumerate(zip(answer.names, values, strict=True)):
        axes.barh(-y, max([*values, 1e-9]) * 1.02, height=0.6, color=LINE)
        axes.barh(-y, value, height=0.6, color=_step_colour(defaults, value))
        axes.annotate(
            formatted(value, defaults["unit"]), (1, -y), (8, 0), ("axes fraction", "data"), "offset points", va="center",
            color=_step_colour(defaults, value), fontsize=9, weight="bold",
        )  # fmt: skip
        axes.annotate(name, (0, -y), (-8, 0), ("axes fraction", "data"), "offset points", va="center", ha="right", fontsize=8)
    axes.set_xlim(0, max([*values, 1e-9]) * 1.02)
    axes.set_ylim(-len(values) + 0.4, 0.6)
    axes.set(xticks=[], yticks=[])


def barchart(frame: Frame, panel: dict[str, Any], answers: list[Answer], marks: list[float]) -> None:
    """Draw groups of bars."""
    axes = frame.axes(left=66, bottom=110, right=14)
    unit = panel["fieldConfig"]["defaults"]["unit"]
    columns, lines = _joined(panel, answers)
    names = [column for column in columns if column != panel["options"]["xField"]]
    (order,) = (one["options"]["sort"][0]["field"] for one in panel["transformations"] if one["id"] == "sortBy")
    lines.sort(key=lambda line: line.get(order, nan))
    colours = {one["matcher"]["options"]: one["properties"][0]["value"]["fixedColor"] for one in _overrides(panel)}
    for place, name in enumerate(names):
        colour = NAMED[colours[name]]
        at = [number + 0.26 * (place - 1) for number in range(len(lines))]
        axes.bar(at, [line.get(name, nan) for line in lines], width=0.23, color=colour, alpha=0.85)
        frame.text(20 + 90 * place, 14, "■", color=colour, fontsize=9)
        frame.text(34 + 90 * place, 14, name, fontsize=7.5)
    axes.set_xticks(range(len(lines)), [line[panel["options"]["xField"]] for line in lines], rotation=30, ha="right")
    axes.tick_params(axis="x", labelcolor=TEXT)
    _value_axis(axes, unit)
    axes.grid(color=LINE, lw=0.7, axis="y")
    axes.set_axisbelow(True)


KINDS: dict[str, Callable[[Frame, dict[str, Any], list[Answer], list[float]], None]] = {
    "stat": stat,
    "timeseries": timeseries,
    "state-timeline": state_timeline,
    "table": table,
    "bargauge": bargauge,
    "barchart": barchart,
}


def _joined(panel: dict[str, Any], answers: list[Answer]) -> tuple[list[str], list[dict[str, Any]]]:
    """Join the queries' rows by the labels that they share, then name and order the columns as the panel says."""
    lines: list[dict[str, Any]] = []
    for answer in sorted(answers, key=lambda answer: -max((len(labels) for labels in answer.labels), default=0)):
        column = f"Value #{answer.ref_id}" if len(answers) > 1 else "Value"
        for labels, (_, values) in zip(answer.labels, answer.points, strict=True):
            same = [line for line in lines if all(line.get(key) == value for key, value in labels.items())]
            if not same:
                same = [dict(labels)]
                lines += same
            for line in same:
                line[column] = values[-1]
    (organise,) = (one["options"] for one in panel["transformations"] if one["id"] == "organize")
    fields = sorted(organise["indexByName"], key=organise["indexByName"].get)
    names = {field: organise["renameByName"].get(field, field) for field in fields}
    return list(names.values()), [{names[key]: value for key, value in line.items() if key in names} for line in lines]


def _cell(value: Any, style: dict[str, Any]) -> tuple[str, str]:
    if value is None:
        return "–", MUTED
    if isinstance(value, str):
        return value, "#6e9fff" if "links" in style else TEXT
    return _words(style.get("mappings", []), value) or (
        formatted(value, style.get("unit", "short"), style.get("decimals")),
        TEXT,
    )


def _overrides(panel: dict[str, Any]) -> list[dict[str, Any]]:
    return list(panel["fieldConfig"]["overrides"])


def _words(mappings: list[dict[str, Any]], value: float) -> tuple[str, str] | None:
    for mapping in mappings:
        found = mapping["options"].get(f"{value:g}")
        if found:
            return found["text"], NAMED[found["color"]]
    return None


def _step_colour(defaults: dict[str, Any], value: float) -> str:
    steps = defaults["thresholds"]["steps"]
    return NAMED[[step for step in steps if step["value"] is None or value >= step["value"]][-1]["color"]]


def _time_axis(axes: Axes, span: tuple[float, float]) -> None:
    axes.set_xlim(*span)
    step = next(step for step in (300, 600, 900, 1800, 3600, 7200) if (span[1] - span[0]) / step <= 8)
    ticks = list(range(int(span[0] // step + 1) * step, int(span[1]) + 1, step))
    axes.set_xticks(ticks, [datetime.fromtimestamp(moment, UTC).strftime("%H:%M") for moment in ticks])


def _value_axis(axes: Axes, unit: str) -> None:
    high = axes.get_ylim()[1]
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    if unit == "bytes":
        axes.yaxis.set_major_locator(MultipleLocator(2.0 ** ceil(log2(high / 5))))
    elif unit == "s" and high > 60:
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 1.2, 1.8, 2.4, 3, 6, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: formatted(value, unit)))
