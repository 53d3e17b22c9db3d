"""Time against cost of every instance: which trade one for the other, and which are worse in both."""

from __future__ import annotations

from dataclasses import dataclass

from ...answers.answer_schema import CurrentInstance, InstanceAnswer, RecommendationAnswer
from ...words import length, number, time_unit
from .axis import Axis, axis_from_zero, tick_text


@dataclass(frozen=True)
class Point:
    """An instance; places in per cent of the plot.

    Attributes:
        kind: ``now``, ``best`` (cheapest or fastest), ``trade`` (no other is faster and cheaper) or ``other``.
        label: written beside it; empty for most.
        leftwards: the label stands to its left.
    """

    left: float
    top: float
    kind: str
    label: str
    leftwards: bool
    says: str


@dataclass(frozen=True)
class CostPlot:
    """Everything that the template draws: see `EpochPlot`."""

    points: tuple[Point, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    unit: str
    says: str


def cost_plot(recommendation: RecommendationAnswer | None) -> CostPlot | None:
    """Draw what is recommended; None where seconds or USD of two are not known."""
    if recommendation is None:
        return None
    rows = [one for one in recommendation.recommendations if one.seconds is not None and one.usd is not None]
    if len(rows) < 2:
        return None
    unit = time_unit([one.seconds for one in rows])
    along = axis_from_zero([(one.seconds or 0.0) / unit.seconds for one in rows])
    upward = axis_from_zero([one.usd or 0.0 for one in rows])
    best = {_place(one): word for word, one in _named(recommendation).items()}
    now = None if recommendation.current is None else _place(recommendation.current)
    points = [
        _point(one, along, upward, unit.seconds, "now" if _place(one) == now else best.get(_place(one), "")) for one in rows
    ]
    order = {"other": 0, "trade": 1, "best": 2, "now": 3}  # what matters is drawn last, over the others
    return CostPlot(
        tuple(sorted(points, key=lambda point: order[point.kind])),
        tuple((along.place(tick), tick_text(tick)) for tick in along.ticks),
        tuple((round(100 - upward.place(tick), 3), f"${tick_text(tick)}") for tick in upward.ticks),
        unit.name,
        f"{len(rows)} instances; the table of all instances has the figures.",
    )


def _named(recommendation: RecommendationAnswer) -> dict[str, InstanceAnswer]:
    both = {"fastest": recommendation.fastest, "cheapest": recommendation.cheapest}
    return {word: one for word, one in both.items() if one is not None}


def _place(one: InstanceAnswer | CurrentInstance) -> tuple[str, str, str, str]:
    """What tells instances apart: some clouds rent one name with different GPUs."""
    return one.instance, one.cloud, one.region, one.gpu


def _point(one: InstanceAnswer, along: Axis, upward: Axis, unit_s: float, word: str) -> Point:
    left, top = along.place((one.seconds or 0.0) / unit_s), round(100 - upward.place(one.usd or 0.0), 3)
    kind = "now" if word == "now" else "best" if word else "trade" if one.pareto else "other"
    says = f"{one.instance} ({one.cloud}, {one.gpu}): {length(one.seconds)}, ${number(one.usd or 0.0)}"
    return Point(left, top, kind, word, left > 60, says)
