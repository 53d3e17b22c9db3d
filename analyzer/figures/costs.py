"""What instances cost and how long they take: the front of those that none beats in both, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.figures.style import BLUE, GREEN, ORANGE, drawing, plain_log_axis, time_unit
from epochcast.regressor.prediction import Estimate

if TYPE_CHECKING:
    from epochcast.analyzer.jobs.placement import Placement

_DOT: Mapping[str, Any] = {"color": BLUE, "marker": "o", "markersize": 5, "alpha": 0.6, "linestyle": ""}
_MOST_NAMES = 2  # of instances at the same place; the rest are counted


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
    front = _places([row for row in recommendations if row.pareto])
    others = [row for row in recommendations if not row.pareto]
    missed = [row for row in others if _misses(row, deadline_s, budget_usd)]
    kept = [row for row in others if not _misses(row, deadline_s, budget_usd)]
    times, costs = ([interval(row).value for row in recommendations] for interval in (time_interval, cost_interval))
    known = all(row.seconds is not None for row in recommendations)
    unit, unit_s = time_unit(times) if known else ("", 1.0)
    with drawing():
        figure = Figure(figsize=(10, max(4.6, 1.5 + 0.25 * len(front))), layout="constrained")
        axes = figure.subplots()
        for rows, fill in ((kept, BLUE), (missed, "none")):
            places = [(time_interval(row).value / unit_s, cost_interval(row).value) for row in rows]
            axes.plot([x for x, _ in places], [y for _, y in places], **_DOT, markerfacecolor=fill)
        discs = [_disc(axes, number, rows[0], unit_s) for number, rows in enumerate(front, start=1)]
        limits = {}
        if deadline_s is not None and _is_near(deadline_s, times):
            limits["deadline"] = axes.axvline(deadline_s / unit_s, color=GREEN, linestyle="--", linewidth=1)
        if budget_usd is not None and _is_near(budget_usd, costs):
            limits["budget"] = axes.axhline(budget_usd, color=GREEN, linestyle=":", linewidth=1.4)
        axes.margins(0.08)
        plain_log_axis(axes.xaxis)
        plain_log_axis(axes.yaxis)
        axes.set_xlabel(f"time [{unit}]" if known else "time relative to the source GPU")
        axes.set_ylabel("cost [USD]" if known else "cost of one hour's work of the source GPU [USD]")
        if front:
            _name_front(figure, discs, [_label(rows) for rows in front])
        _explain(figure, limits, front=bool(front), others=bool(kept), hollow=bool(missed))
        return figure


def _misses(row: Placement, deadline_s: float | None, budget_usd: float | None) -> bool:
    late = deadline_s is not None and time_interval(row).value > deadline_s
    dear = budget_usd is not None and cost_interval(row).value > budget_usd
    return row.fits is False or late or dear


def _is_near(limit: float, values: Sequence[float]) -> bool:
    """Whether a line there leaves the instances room: at most a decade off."""
    return min(values) / 10 <= limit <= 10 * max(values)


def _places(rows: Sequence[Placement]) -> list[list[Placement]]:
    """Rows of equal time and cost together (one GPU at one price in several clouds or regions), the fastest first."""
    places: dict[tuple[float, float], list[Placement]] = {}
    for row in rows:
        places.setdefault((time_interval(row).value, cost_interval(row).value), []).append(row)
    return [places[place] for place in sorted(places)]


def _label(rows: Sequence[Placement]) -> str:
    names = list(dict.fromkeys(short_name(row) for row in rows))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more} ({rows[0].instance.gpu})"


def _disc(axes: Axes, number: int, row: Placement, unit_s: float) -> Any:
    """Draw a numbered disc with the intervals behind it; returns what a legend draws of it, disc and digits."""
    seconds, usd = time_interval(row), cost_interval(row)
    x, y = seconds.value / unit_s, usd.value
    axes.plot([seconds.low / unit_s, seconds.high / unit_s], [y, y], color=ORANGE, linewidth=1, alpha=0.6)
    axes.plot([x, x], [usd.low, usd.high], color=ORANGE, linewidth=1, alpha=0.6)
    (disc,) = axes.plot(x, y, "o", color=ORANGE, markersize=13, linestyle="", zorder=3)
    (digits,) = axes.plot(x, y, color="white", marker=f"${number}$", markersize=6 + 2 * (number > 9), linestyle="", zorder=3)
    return disc, digits


def _name_front(figure: Figure, discs: Sequence[Any], labels: Sequence[str]) -> None:
    """Name the discs next to the axes, where names cannot overlap."""
    legend = figure.legend(
        discs,
        labels,
        loc="outside right upper",
        handler_map={tuple: HandlerTuple(ndivide=1)},
        labelspacing=0.9,
        title="no instance is both faster and cheaper",
        alignment="left",
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _explain(figure: Figure, limits: Mapping[str, Line2D], *, front: bool, others: bool, hollow: bool) -> None:
    marks = {}
    if front:
        marks["90 % interval"] = Line2D([], [], color=ORANGE, linewidth=1)
    if others:
        marks["others"] = Line2D([], [], **_DOT)
    if hollow:
        marks["too little memory, or over a limit"] = Line2D([], [], **_DOT, markerfacecolor="none")
    marks |= limits
    figure.legend(list(marks.values()), list(marks), loc="outside lower left", ncols=len(marks))


_LONGEST_NAME = 32  # a price file can say anything


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
