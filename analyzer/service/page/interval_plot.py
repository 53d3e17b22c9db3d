"""A job on every GPU model: one row each, a point with its 90 % interval, on an axis that all rows share."""

from __future__ import annotations

from dataclasses import dataclass

from ....regressor.prediction import basis
from ...answers.answer_schema import PredictionAnswer, TargetAnswer
from ...words import TimeUnit, time_unit
from .axis import axis_from_zero, tick_text


@dataclass(frozen=True)
class Row:
    """A GPU model; places in per cent of the axis."""

    answer: TargetAnswer
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
        return basis(self.answer.route, self.answer.support)


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


def interval_plot(prediction: PredictionAnswer, own: str | None) -> IntervalPlot | None:
    """Draw ``prediction``, fastest first; ``own`` is the model that the job runs on. None without predictions."""
    if not prediction.predictions:
        return None
    known = [one.seconds for one in prediction.predictions]
    unit = None if None in known else time_unit(known)
    values = {one.gpu: _values(one, unit) for one in prediction.predictions}
    axis = axis_from_zero([value for three in values.values() for value in three])
    rows = tuple(
        Row(one, one.gpu == own or one.route == "measured", *(axis.place(value) for value in values[one.gpu]))
        for one in sorted(prediction.predictions, key=lambda one: values[one.gpu][1])
    )
    here = next((row.middle for row in rows if row.own), None)
    return IntervalPlot(rows, unit, axis.logarithmic, tuple((axis.place(tick), tick_text(tick)) for tick in axis.ticks), here)


def _values(one: TargetAnswer, unit: TimeUnit | None) -> tuple[float, float, float]:
    """Low, middle and high in ``unit``; the ratio's where there is none."""
    if unit is None or one.seconds is None or one.low is None or one.high is None:
        return one.ratio_low, one.ratio, one.ratio_high
    return one.low / unit.seconds, one.seconds / unit.seconds, one.high / unit.seconds
