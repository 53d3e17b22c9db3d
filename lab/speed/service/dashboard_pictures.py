"""Draw what the dashboards' panels show, into docs/images/dashboards/: ``python -m lab.speed.service.dashboard_pictures``.

The numbers are a real Prometheus's answers to the panels' own queries; the Prometheus holds the history of the modelled fleet.
The drawings are Matplotlib's, laid out by the dashboards' grid: no Grafana had a part in them.
"""

import json
import re
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from lab.speed.page import ROOT, Page
from lab.speed.processes import Prometheus, prometheus
from lab.speed.service.modelled_fleet import fleet
from lab.speed.service.modelled_series import agent_series, analyzer_series, write_history

STEP_S = 30.0
HISTORY_S = 3.5 * 3600
CHOICES = {"node": ".+", "instance": ".+", "gpu": "GPU-gpu-a-3", "training_job": "slurm-4711", "__rate_interval": "91s"}
COLUMN, ROW, HEAD = 0.65, 0.36, 0.7  # inches
BACKGROUND, PANEL, TEXT, MUTED, LINE, LINK = "#111217", "#20252c", "#d8d9da", "#8e9099", "#3d444c", "#6e9fff"
SERIES = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#96d98d")
NAMED = {"green": "#73bf69", "yellow": "#f2cc0c", "red": "#f2495c", "blue": "#5794f2", "light-blue": "#34517f", "text": MUTED}
STYLE = {
    **dict.fromkeys(("text.color", "ytick.labelcolor"), TEXT),
    **dict.fromkeys(("xtick.color", "ytick.color"), MUTED),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 7.5),
    **dict.fromkeys(("axes.spines.left", "axes.spines.right", "axes.spines.top", "axes.spines.bottom"), False),
    **dict.fromkeys(("xtick.major.size", "ytick.major.size"), 0),
    "font.size": 8,
    "axes.facecolor": PANEL,
    "axes.prop_cycle": cycler(color=SERIES),
    "axes.axisbelow": True,
    "grid.color": LINE,
    "legend.frameon": False,
}

# What a value of a unit is divided by, from where on, and what is written behind it.
SCALES: dict[str, list[tuple[float, str]]] = {
    "s": [(86400, " d"), (3600, " h"), (60, " min"), (1, " s"), (1e-3, " ms")],
    "bytes": [(2.0**30, " GiB"), (2.0**20, " MiB"), (2.0**10, " KiB"), (1, " B")],
    "Bps": [(1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1, " B/s")],
    "hertz": [(1e9, " GHz"), (1e6, " MHz"), (1e3, " kHz"), (1, " Hz")],
    "percentunit": [(0.01, "%")],
    "watt": [(1, " W")],
    "celsius": [(1, " °C")],
    "cps": [(1, " c/s")],
    "reqps": [(1, " req/s")],
}


class Answer(NamedTuple):
    """What a query gave: per series its labels, its legend, its times and values; ``span`` is the time shown [unix s]."""

    ref_id: str
    labels: list[dict[str, str]]
    names: list[str]
    points: list[tuple[list[float], list[float]]]
    span: tuple[float, float]


def main() -> None:
    """Fill a Prometheus, ask it every panel's queries, draw."""
    now = time.time() // 60 * 60.0
    with tempfile.TemporaryDirectory() as folder, prometheus(Path(folder), write=partial(write, now)) as database:
        for path in sorted((ROOT / "dashboards" / "grafana").glob("*.json")):
            with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its stub wants the keys as literals
                figure = drawn(json.loads(path.read_text(encoding="utf-8")), database, now)
            print(Page("dashboards").save_picture(figure, path.stem, dpi=100, background=BACKGROUND))


def write(now: float, file: TextIO) -> None:
    """Write the fleet's history."""
    jobs = fleet(now)
    moments = [now - STEP_S * step for step in range(round(HISTORY_S / STEP_S), -1, -1)]
    write_history(agent_series(jobs, now), moments, file)
    write_history(analyzer_series(jobs, now), moments, file)


def drawn(board: dict[str, Any], database: Prometheus, now: float) -> Figure:
    """Return a dashboard's picture."""
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"])
    figure = Figure(figsize=(24 * COLUMN, height * ROW + HEAD))
    top = 1 - HEAD / figure.get_figheight()
    note = "drawn from the panels' queries; modelled fleet, not Grafana's own picture"
    figure.text(0.008, (1 + top) / 2, board["title"], fontsize=14, weight="bold", va="center")
    figure.text(0.992, (1 + top) / 2, note, color=MUTED, va="center", ha="right", style="italic")
    hours = min(float(board["time"]["from"].removeprefix("now-").removesuffix("h")), HISTORY_S / 3600)
    marks: set[float] = set()
    for annotation in board.get("annotations", {}).get("list", []):
        for series in database.query_range(substituted(annotation["expr"]), now - hours * 3600, now, STEP_S):
            marks |= {float(value) / 1000 for _, value in series["values"]}
    for panel in board["panels"]:
        at = panel["gridPos"]
        bottom = top * (1 - (at["y"] + at["h"]) / height)
        place = (at["x"] / 24 + 0.003, bottom + 0.003, at["w"] / 24 - 0.006, top * at["h"] / height - 0.006)
        if panel["type"] == "row":
            figure.text(place[0], bottom + place[3] / 2, panel["title"], fontsize=10.5, weight="bold", va="center")
            continue
        ground = figure.add_axes(place, xticks=[], yticks=[])
        ground.set_title(panel["title"], loc="left", fontsize=9, x=0.01, y=1.0, pad=-14)
        answers = [answer(database, target, now, hours) for target in panel["targets"]]
        KINDS[panel["type"]](ground, panel, answers)
        if panel["type"] == "timeseries":
            for mark in sorted(marks):
                ground.child_axes[0].axvline(mark, color="#f2cc0c", lw=0.7, ls=(0, (4, 3)), alpha=0.55)  # type: ignore[attr-defined]  # a lesser class in its stub
    return figure


def answer(database: Prometheus, target: dict[str, Any], now: float, hours: float) -> Answer:
    """Return the answer to a panel's query, as Grafana would get it."""
    expression, start = substituted(target["expr"]), now - hours * 3600
    if target.get("instant"):
        series = database.query(expression, now)
        points = [([now], [float(one["value"][1])]) for one in series]
    else:
        series = database.query_range(expression, start, now, max(15.0, hours * 3600 / 360))
        points = [([t for t, _ in one["values"]], [float(v) for _, v in one["values"]]) for one in series]
    legend = target.get("legendFormat", "")
    names = [re.sub(r"{{(\w+)}}", partial(lambda one, found: one["metric"].get(found[1], ""), one), legend) for one in series]
    return Answer(target["refId"], [one["metric"] for one in series], names, points, (start, now))


def substituted(expression: str) -> str:
    """Return a query with the choices in the place of its variables."""
    for name, value in CHOICES.items():
        expression = expression.replace(f"${name}", value)
    return expression


def formatted(value: float, unit: str, decimals: int | None = None) -> str:
    """Return a value with its unit, about as short as Grafana writes it."""
    if np.isnan(value):
        return "–"
    if unit == "currencyUSD":
        return f"${value:,.{2 if decimals is None else decimals}f}"
    scales = SCALES.get(unit, [(1, "")])
    divisor, suffix = next((scale for scale in scales if abs(value) >= scale[0]), scales[-1])
    text = f"{value / divisor:,.{(1 if unit == 'percentunit' else 2) if decimals is None else decimals}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + suffix


def words(mappings: list[dict[str, Any]], value: float) -> tuple[str, str] | None:
    """The text and colour that a panel gives a value, if any."""
    found = [mapping["options"][f"{value:g}"] for mapping in mappings if f"{value:g}" in mapping["options"]]
    return (found[0]["text"], NAMED[found[0]["color"]]) if found else None


def step_colour(defaults: dict[str, Any], value: float) -> str:
    """The colour of the highest threshold that a value reaches."""
    steps = defaults["thresholds"]["steps"]
    return NAMED[[step for step in steps if step["value"] is None or value >= step["value"]][-1]["color"]]


def time_axis(axes: Axes, span: tuple[float, float]) -> None:
    """Hours and minutes along the bottom."""
    step = next(step for step in (300, 600, 900, 1800, 3600, 7200) if (span[1] - span[0]) / step <= 8)
    ticks = list(range(int(span[0] // step + 1) * step, int(span[1]) + 1, step))
    axes.set_xlim(*span)
    axes.set_xticks(ticks, [datetime.fromtimestamp(moment, UTC).strftime("%H:%M") for moment in ticks])


def value_axis(axes: Axes, unit: str) -> None:
    """Few ticks with their unit, and lines at them."""
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 1.2, 1.8, 2.4, 3, 6, 10] if unit == "s" else None))
    if unit == "bytes":
        axes.yaxis.set_major_locator(MultipleLocator(2.0 ** np.ceil(np.log2(axes.get_ylim()[1] / 5))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: formatted(value, unit)))
    axes.grid(axis="y")


def stat(ground: Axes, panel: dict[str, Any], answers: list[Answer]) -> None:
    """Draw one figure."""
    defaults = panel["fieldConfig"]["defaults"]
    text, colour = defaults["noValue"], MUTED
    if answers[0].points:
        value = answers[0].points[0][1][-1]
        number = formatted(value, defaults["unit"], defaults.get("decimals")), step_colour(defaults, value)
        text, colour = words(defaults.get("mappings", []), value) or number
        if panel["options"]["textMode"] == "name":
            text = answers[0].names[0]
    ground.text(0.5, 0.4, text, fontsize=min(26, 240 / len(text)), color=colour, ha="center", va="center", weight="bold")


def timeseries(ground: Axes, panel: dict[str, Any], answers: list[Answer]) -> None:
    """Draw lines, with a legend that has the newest value."""
    axes = ground.inset_axes((0.13, 0.44, 0.85, 0.44))
    defaults = panel["fieldConfig"]["defaults"]
    stairs = "steps-post" if defaults["custom"].get("lineInterpolation") == "stepAfter" else "default"
    for one in answers:
        for name, (times, values) in zip(one.names, one.points, strict=True):
            axes.plot(times, values, lw=1.1, drawstyle=stairs, label=f"{name}: {formatted(values[-1], defaults['unit'])}")
    time_axis(axes, answers[0].span)
    if defaults["custom"].get("thresholdsStyle", {}).get("mode") == "dashed":
        for step in defaults["thresholds"]["steps"][1:]:
            axes.axhline(step["value"], color=NAMED[step["color"]], lw=0.9, ls="--", alpha=0.8)
    low, high = axes.get_ylim()
    low, high = defaults.get("min", low), defaults.get("max", high)
    axes.set_ylim(low, high if high > low else low + 1)
    value_axis(axes, defaults["unit"])
    handles = axes.get_lines()[:10]
    axes.legend(
        handles=[line for line in handles if str(line.get_label())[0] != "_"],
        loc="upper left",
        bbox_to_anchor=(-0.12, -0.2),
        ncols=2,
    )


def state_timeline(ground: Axes, panel: dict[str, Any], answers: list[Answer]) -> None:
    """Draw a bar for each series whose colour is its state."""
    axes = ground.inset_axes((0.14, 0.15, 0.84, 0.73))
    mappings = panel["fieldConfig"]["defaults"]["mappings"]
    rows = sorted(zip(answers[0].names, answers[0].points, strict=True), reverse=True)
    for y, (_, (times, values)) in enumerate(rows):
        edges = [0, *(k for k in range(1, len(values)) if values[k] != values[k - 1]), len(values)]
        for start, stop in pairwise(edges):
            until = times[min(stop, len(times) - 1)]
            text, colour = words(mappings, values[start]) or ("?", MUTED)
            bar = axes.barh(y, until - times[start], left=times[start], height=0.8, color=colour, alpha=0.85)
            if until - times[start] > 0.09 * (answers[0].span[1] - answers[0].span[0]):
                axes.bar_label(bar, [text], label_type="center", color=BACKGROUND, fontsize=7.5)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    time_axis(axes, answers[0].span)


def table(ground: Axes, panel: dict[str, Any], answers: list[Answer]) -> None:
    """Draw the joined and organised table."""
    columns, lines = joined(panel, answers)
    overrides = panel["fieldConfig"]["overrides"]
    style = {one["matcher"]["options"]: {p["id"]: p["value"] for p in one["properties"]} for one in overrides}
    cells = [[cell(line.get(column), style.get(column, {})) for column in columns] for line in lines]
    rows = [[(column, LINK) for column in columns], *cells]
    wide = [max(6, *(len(row[place][0]) for row in rows)) for place in range(len(columns))]
    height = 0.2 / (panel["gridPos"]["h"] * ROW)
    for number, row in enumerate(rows):
        y = 1 - height * (number + 2.2)
        if y < height:
            break
        for place, (text, colour) in enumerate(row):
            ground.text(0.01 + 0.98 * sum(wide[:place]) / sum(wide), y, text, color=colour, va="center")
        ground.axhline(y - height / 2, color=LINE, lw=0.5)


def joined(panel: dict[str, Any], answers: list[Answer]) -> tuple[list[str], list[dict[str, Any]]]:
    """Join the queries' rows by the labels that they share, then name and order the columns as the panel says."""
    lines: list[dict[str, Any]] = []
    for one in sorted(answers, key=lambda one: -max((len(labels) for labels in one.labels), default=0)):
        column = f"Value #{one.ref_id}" if len(answers) > 1 else "Value"
        for labels, (_, values) in zip(one.labels, one.points, strict=True):
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


def cell(value: Any, style: dict[str, Any]) -> tuple[str, str]:
    """Text and colour of a table's cell."""
    if value is None:
        return "–", MUTED
    if isinstance(value, str):
        return value, LINK if "links" in style else TEXT
    number = formatted(value, style.get("unit", "short"), style.get("decimals"))
    return words(style.get("mappings", []), value) or (number, TEXT)


def bargauge(ground: Axes, panel: dict[str, Any], answers: list[Answer]) -> None:
    """Draw a horizontal bar for each series."""
    axes = ground.inset_axes((0.3, 0.05, 0.55, 0.82))
    defaults = panel["fieldConfig"]["defaults"]
    values = [points[1][-1] for points in answers[0].points]
    colours = [step_colour(defaults, value) for value in values]
    bars = axes.barh(range(len(values)), values, height=0.6, color=colours)
    axes.bar_label(bars, [formatted(value, defaults["unit"]) for value in values], padding=6, fontsize=9, weight="bold")
    axes.set(xlim=(0, 1.02 * max([*values, 1e-9])), xticks=[])
    axes.set_yticks(range(len(values)), answers[0].names)
    axes.invert_yaxis()


def barchart(ground: Axes, panel: dict[str, Any], answers: list[Answer]) -> None:
    """Draw groups of bars."""
    axes = ground.inset_axes((0.1, 0.3, 0.88, 0.58))
    columns, lines = joined(panel, answers)
    along = panel["options"]["xField"]
    (order,) = (one["options"]["sort"][0]["field"] for one in panel["transformations"] if one["id"] == "sortBy")
    lines.sort(key=lambda line: line.get(order, nan))
    colours = {
        one["matcher"]["options"]: one["properties"][0]["value"]["fixedColor"] for one in panel["fieldConfig"]["overrides"]
    }
    for place, name in enumerate(column for column in columns if column != along):
        at = np.arange(len(lines)) + 0.26 * (place - 1)
        axes.bar(at, [line.get(name, nan) for line in lines], width=0.23, color=NAMED[colours[name]], alpha=0.85, label=name)
    axes.set_xticks(range(len(lines)), [line[along] for line in lines], rotation=30, ha="right")
    value_axis(axes, panel["fieldConfig"]["defaults"]["unit"])
    axes.legend(loc="upper left", ncols=3)


KINDS: dict[str, Callable[[Axes, dict[str, Any], list[Answer]], None]] = {
    "stat": stat,
    "timeseries": timeseries,
    "state-timeline": state_timeline,
    "table": table,
    "bargauge": bargauge,
    "barchart": barchart,
}

if __name__ == "__main__":
    main()
