"""The epochs of a job over time: each a line as long as the epoch lasted, at the height of its length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....detector.confidence import ANSWERS
from ...telemetry.gpu_report import EpochRecord
from ...words import count, length, time_unit
from .axis import axis_around, axis_between, tick_text

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
    every = [(gpu, one) for gpu, ones in epochs.items() for one in ones]
    if not every:
        return None
    lengths = [one.seconds for _, one in every]
    end = max(one.end for _, one in every)
    begin = min(since, min(one.start for _, one in every))
    unit, since_unit = time_unit(lengths), time_unit([(end - begin) / 2])
    along = axis_between(0.0, (end - begin) / since_unit.seconds, 6)
    upward = axis_around([value / unit.seconds for value in (*lengths, *(expected or ()))], _LEAST_SHARE)
    marks = tuple(
        Mark(
            along.place((one.start - begin) / since_unit.seconds),
            along.place((one.end - begin) / since_unit.seconds),
            round(100 - upward.place(one.seconds / unit.seconds), 3),
            one.confidence < ANSWERS,  # drawn pale
            gpu == standing_out,
            f"{f'{(names or {}).get(gpu, gpu)}: ' if len(epochs) > 1 else ''}{length(one.seconds)}, "
            f"ended {length(one.end - begin)} after the job began",
        )
        for gpu, one in every
    )
    band = None
    if expected is not None:
        low, high = (upward.place(value / unit.seconds) for value in expected)
        band = (round(100 - high, 3), max(0.4, round(high - low, 3)))
    return EpochPlot(
        marks,
        tuple((along.place(tick), tick_text(tick)) for tick in along.ticks),
        tuple((100 - upward.place(tick), tick_text(tick)) for tick in upward.ticks),
        unit.name,
        since_unit.name,
        band,
        f"{count(len(every), 'epoch')} of {count(len(epochs), 'GPU')}, from {length(min(lengths))} to {length(max(lengths))} "
        f"long, in {length(end - begin)}.",
    )


def trend(epochs: Sequence[EpochRecord]) -> str | None:
    """Points of a small line (100 wide, 24 high) of the newest epochs' lengths; None below three."""
    newest = [one.seconds for one in epochs[-40:]]
    if len(newest) < 3:
        return None
    upward = axis_around(newest, _LEAST_SHARE)
    return " ".join(
        f"{100 * place / (len(newest) - 1):.2f},{2 + 20 * (1 - upward.place(value) / 100):.2f}"
        for place, value in enumerate(newest)
    )
