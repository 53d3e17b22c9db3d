"""The page's plots, in per cent of their width and height: costs of instances, epochs of a job, the time on every GPU model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.predict import Target
from epochcast.analyzer.jobs.prices.instance import Offer
from epochcast.analyzer.jobs.recommend import Recommendation
from epochcast.analyzer.service.page.axis import axis_around, axis_between, axis_from_zero
from epochcast.analyzer.telemetry.gpu_report import EpochRecord
from epochcast.analyzer.words import TimeUnit, count, length, number, time_unit
from epochcast.detector.confidence import ANSWERS


@dataclass(frozen=True)
class Point:
    """An instance; places in per cent of the plot.

    Attributes:
        kind: ``now``, ``best`` (where it should run), ``trade`` (no other is faster and cheaper) or ``other``.
        label: written next to it; empty for most.
        leftwards: the label is on its left.
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


def cost_plot(recommendation: Recommendation | None) -> CostPlot | None:
    """Draw what is recommended; None where seconds or USD of two are not known."""
    if recommendation is None:
        return None
    rows = [(row, row.seconds.value, row.usd.value) for row in recommendation.placements if row.seconds and row.usd]
    if len(rows) < 2:
        return None
    unit = time_unit([seconds for _, seconds, _ in rows])
    along = axis_from_zero([seconds / unit.seconds for _, seconds, _ in rows])
    upward = axis_from_zero([usd for *_, usd in rows])
    best = None if recommendation.verdict.best is None else recommendation.verdict.best.instance.offer
    now = None if recommendation.current is None else recommendation.current.instance.offer
    points = [
        _point(row, along.place(seconds / unit.seconds), upward.place(usd), now, "best" * (row.instance.offer == best))
        for row, seconds, usd in rows
    ]
    order = {"other": 0, "trade": 1, "best": 2, "now": 3}  # what matters is drawn last, over the others
    return CostPlot(
        tuple(sorted(points, key=lambda point: order[point.kind])),
        along.across(),
        upward.up("$"),
        unit.name,
        f"{len(rows)} instances; the table of all instances has the figures.",
    )


def _point(row: Placement, left: float, up: float, now: Offer | None, word: str) -> Point:
    word = "now" if row.instance.offer == now else word
    kind = "now" if word == "now" else "best" if word else "trade" if row.pareto else "other"
    old = ", by a price older than a year" * row.price_stale
    assert row.seconds is not None and row.usd is not None
    where = f"{row.instance.name} ({row.instance.cloud}, {row.instance.gpu})"
    says = f"{where}: {length(row.seconds.value)}, ${number(row.usd.value)}{old}"
    return Point(left, round(100 - up, 3), kind, word, left > 60, says)


_LEAST_SHARE = 0.12  # of the middle length, shown above and below it: a change of some per cent is seen as what it is


@dataclass(frozen=True)
class Mark:
    """One epoch; places in per cent of the plot."""

    left: float
    right: float
    top: float
    unsure: bool
    standing_out: bool
    says: str


@dataclass(frozen=True)
class EpochPlot:
    """Everything that the template draws.

    Attributes:
        across, up: ticks of the axes, place in per cent and text.
        unit, since_unit: of their texts.
        band: top and height of the interval of the epoch length; None without one.
        says: the plot in a sentence, for who does not see it.
    """

    marks: tuple[Mark, ...]
    across: tuple[tuple[float, str], ...]
    up: tuple[tuple[float, str], ...]
    unit: str
    since_unit: str
    band: tuple[float, float] | None
    says: str


def epoch_plot(
    epochs: Mapping[str, Sequence[EpochRecord]],
    *,
    since: float,
    expected: tuple[float, float] | None = None,
    names: Mapping[str, str] | None = None,
    standing_out: str | None = None,
) -> EpochPlot | None:
    """Draw the epochs of each GPU (by UUID) since the job began [unix s]; None without epochs.

    ``expected`` is the 90 % interval of the epoch length [s]; ``standing_out`` the GPU that holds the others up.
    """
    every = [(gpu, epoch) for gpu, records in epochs.items() for epoch in records]
    if not every:
        return None
    lengths = [epoch.seconds for _, epoch in every]
    end = max(epoch.end for _, epoch in every)
    begin = min(since, min(epoch.start for _, epoch in every))
    unit, since_unit = time_unit(lengths), time_unit([(end - begin) / 2])
    along = axis_between(0.0, (end - begin) / since_unit.seconds, 6)
    upward = axis_around([value / unit.seconds for value in (*lengths, *(expected or ()))], _LEAST_SHARE)
    marks = tuple(
        Mark(
            along.place((epoch.start - begin) / since_unit.seconds),
            along.place((epoch.end - begin) / since_unit.seconds),
            round(100 - upward.place(epoch.seconds / unit.seconds), 3),
            epoch.confidence < ANSWERS,  # drawn pale
            gpu == standing_out,
            f"{f'{(names or {}).get(gpu, gpu)}: ' if len(epochs) > 1 else ''}{length(epoch.seconds)}, "
            f"ended {length(epoch.end - begin)} after the job began",
        )
        for gpu, epoch in every
    )
    band = None
    if expected is not None:
        low, high = (upward.place(value / unit.seconds) for value in expected)
        band = (round(100 - high, 3), max(0.4, round(high - low, 3)))
    return EpochPlot(
        marks,
        along.across(),
        upward.up(),
        unit.name,
        since_unit.name,
        band,
        f"{count(len(every), 'epoch')} of {count(len(epochs), 'GPU')}, from {length(min(lengths))} to {length(max(lengths))} "
        f"long, in {length(end - begin)}.",
    )


def trend(epochs: Sequence[EpochRecord]) -> str | None:
    """Points of a small line (100 wide, 24 high) of the newest epochs' lengths; None below three."""
    newest = [epoch.seconds for epoch in epochs[-40:]]
    if len(newest) < 3:
        return None
    upward = axis_around(newest, _LEAST_SHARE)
    return " ".join(
        f"{100 * place / (len(newest) - 1):.2f},{2 + 20 * (1 - upward.place(value) / 100):.2f}"
        for place, value in enumerate(newest)
    )


@dataclass(frozen=True)
class Row:
    """A GPU model; places in per cent of the axis."""

    answer: Target
    own: bool
    left: float
    middle: float
    right: float

    @property
    def both_measured(self) -> bool:
        """Whether jobs were measured on both GPUs: its point is filled."""
        return not self.answer.by_data_sheet

    @property
    def basis(self) -> str:
        """What it rests on, in a word or two."""
        return self.answer.basis


@dataclass(frozen=True)
class IntervalPlot:
    """Everything that the template draws.

    Attributes:
        unit: of the seconds in the table and on the axis; None where there are only ratios.
        ticks: place in per cent and text.
        here: where the job is now, in per cent; None where the prediction has no such row.
    """

    rows: tuple[Row, ...]
    unit: TimeUnit | None
    logarithmic: bool
    ticks: tuple[tuple[float, str], ...]
    here: float | None


def interval_plot(job: Job, own: str | None) -> IntervalPlot | None:
    """Draw the predictions of ``job``, fastest first; ``own`` is the model that the job runs on. None without predictions."""
    if not job.predictions:
        return None
    known = [target.seconds for target in job.predictions]
    unit = None if None in known else time_unit(known)
    values = {target.gpu: _values(target, unit) for target in job.predictions}
    axis = axis_from_zero([value for three in values.values() for value in three])
    rows = tuple(
        Row(target, target.gpu == own or target.route == "measured", *(axis.place(value) for value in values[target.gpu]))
        for target in sorted(job.predictions, key=lambda target: values[target.gpu][1])
    )
    here = next((row.middle for row in rows if row.own), None)
    return IntervalPlot(rows, unit, axis.logarithmic, axis.across(), here)


def _values(target: Target, unit: TimeUnit | None) -> tuple[float, float, float]:
    """Low, middle and high in ``unit``; the ratio's where there is none."""
    if unit is None or target.seconds is None or target.low is None or target.high is None:
        return target.ratio_low, target.ratio, target.ratio_high
    return target.low / unit.seconds, target.seconds / unit.seconds, target.high / unit.seconds
