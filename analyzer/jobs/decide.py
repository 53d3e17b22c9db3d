"""How sure the first place is, and the measurement that helps most where it is not.

Each GPU's ratio is known as a normal distribution in the logarithm, as wide as its 90 % interval; they are drawn
independently. Following the ranking loses, on average over the draws, what the first one costs above the one that turns out
best (the expected regret). A short run on a GPU replaces its draw by the truth; what the choice then still loses, on average,
shows what that run is worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.rank import Objective, comparable_prices, cost_of, time_of
from epochcast.regressor import Profile

# Enough that the detector finds the epochs of the run (it takes 4.5 on average), and no less than a minute of them.
_RUN_EPOCHS = 5
_RUN_S = 60.0

_RIVAL = 0.05  # the chance to beat the first one from which a GPU counts as its rival: their intervals overlap
# A run decides if it leaves a tenth of the expected regret, or a hundredth of what the first one costs: single
# measurements of a ratio differ by 2.4 % (research: noise floor), so that less than this cannot be measured.
_LEFT = 0.1
_SMALL = 0.01
_DRAWS = 4096
_TAIL = float(norm.isf(0.05))


@dataclass(frozen=True)
class Trial:
    """A few epochs (or steps) of the job on one instance, to see how long they take there.

    Attributes:
        placement: where.
        epochs: how many, the first one included.
        seconds: with the start-up.
        usd: what it costs.
    """

    placement: Placement
    epochs: int
    seconds: float
    usd: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "usd", self.seconds / 3600 * self.placement.usd_per_hour)


@dataclass(frozen=True)
class Experiment:
    """The run that tells most.

    Attributes:
        run: on the first one or a rival.
        saves: how much the expected regret falls, in the unit of the objective (USD or seconds).
        worth: it saves more than it takes, USD for USD or second for second.
    """

    run: Trial
    saves: float
    worth: bool


@dataclass(frozen=True)
class Rival:
    """An instance that may be better than the first one, with the chance that it is."""

    placement: Placement
    chance: float


@dataclass(frozen=True)
class Decision:
    """How much can be lost by following the first place.

    Attributes:
        first: the first placement.
        chance: that none is better.
        rivals: the best instance of every other hardware (GPU and number of them) that is better with a chance of 5 % or more,
            likeliest first; none: it is sure.
        regret: expected extra cost [USD] or time [s] of the first over the one that turns out best; None without seconds.
        regret_share: the same as a share of what the first costs or takes.
        experiment: what would help to decide; None where it is sure, where nearly nothing can be lost, and where there are no
            seconds to plan one with.
    """

    first: Placement
    chance: float
    rivals: tuple[Rival, ...]
    regret: float | None
    regret_share: float
    experiment: Experiment | None

    @property
    def small(self) -> bool:
        """Whether so little can be lost that no measurement would show it."""
        return self.regret_share <= _SMALL

    @property
    def sure(self) -> bool:
        """Whether no other hardware is within the interval."""
        return not self.rivals


def trial_run(profile: Profile, row: Placement, *, epochs: int, startup_s: float) -> Trial:
    """Some epochs of the job of ``epochs`` on the instance of ``row``: five, a minute of them, or all, whichever is less."""
    prediction = row.prediction
    assert prediction.seconds is not None
    count = min(max(_RUN_EPOCHS, math.ceil(_RUN_S / prediction.seconds)), epochs)
    first_s = prediction.seconds if profile.first_epoch_s is None else profile.first_epoch_s * prediction.ratio
    return Trial(row, count, startup_s + first_s + (count - 1) * prediction.seconds)


def decide(
    placements: Sequence[Placement],
    objective: Objective,
    run_on: Callable[[Placement], Trial] | None = None,
) -> Decision | None:
    """Weigh the first of ``placements`` against the best instance of all other hardware; None if there are none.

    Where there are fresh prices, instances with a stale one do not count. ``run_on`` says what a measurement takes
    (`trial_run`); without it no experiment is planned. What has no width, such as the source's own GPU, needs none.
    """
    if not placements:
        return None
    value = cost_of if objective == "cost" else time_of
    best: dict[tuple[str, int], Placement] = {}
    for row in comparable_prices(placements):  # best first
        best.setdefault(row.hardware, row)
    rows = list(best.values())
    expected = np.array([value(row) for row in rows])
    drawn = _draws(rows, expected)
    least = drawn.min(axis=1)
    regret = float((drawn[:, 0] - least).mean())
    chances = (drawn < drawn[:, :1]).mean(axis=0)
    rivals = sorted((Rival(rows[k], float(chances[k])) for k in range(1, len(rows)) if chances[k] >= _RIVAL), key=_by_chance)
    experiment = None
    if rivals and run_on is not None and regret > _SMALL * expected[0]:
        numbers = [0, *(rows.index(rival.placement) for rival in rivals)]
        experiment = _best_run(rows, expected, drawn, numbers, objective, run_on)
    return Decision(
        first=rows[0],
        chance=float((drawn[:, 0] <= least).mean()),
        rivals=tuple(rivals),
        regret=None if rows[0].seconds is None else regret,
        regret_share=regret / float(expected[0]),
        experiment=experiment,
    )


def _by_chance(rival: Rival) -> tuple[float, tuple[str, int]]:
    return -rival.chance, rival.placement.hardware


def _draws(rows: Sequence[Placement], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cost or time of each row, shape (draws, rows); only the part that is spent in epochs varies."""
    ratios = [row.prediction for row in rows]
    below = np.array([math.log(prediction.ratio / prediction.ratio_low) / _TAIL for prediction in ratios])
    above = np.array([math.log(prediction.ratio_high / prediction.ratio) / _TAIL for prediction in ratios])
    normal = _normal(len(rows))
    factor = np.exp(normal * np.where(normal < 0, below, above))
    fixed = np.array([0.0 if row.job is None or not row.seconds else row.job.fixed_s / row.seconds.value for row in rows])
    drawn: NDArray[np.float64] = expected * (fixed + (1 - fixed) * factor)
    return drawn


@lru_cache(maxsize=4)  # the same for each job
def _normal(columns: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).standard_normal((_DRAWS, columns))


def _best_run(
    rows: Sequence[Placement],
    expected: NDArray[np.float64],
    drawn: NDArray[np.float64],
    numbers: Sequence[int],
    objective: Objective,
    run_on: Callable[[Placement], Trial],
) -> Experiment:
    """Of the runs on the first one and its rivals the cheapest that decides; where none does, what saves most for its price."""
    among, middle = drawn[:, numbers], expected[list(numbers)]
    least = among.min(axis=1)

    def regret(k: int | None) -> float:
        """What is lost on average by the choice when this one is known and the others are taken for what is expected."""
        known = np.tile(middle, (len(among), 1))
        if k is not None:
            known[:, k] = among[:, k]
        picked = np.take_along_axis(among, known.argmin(axis=1, keepdims=True), axis=1)
        return float((picked[:, 0] - least).mean())

    before = regret(None)
    enough = max(_LEFT * before, _SMALL * float(middle[0]))
    ratios = [rows[number].prediction for number in numbers]
    uncertain = [k for k, prediction in enumerate(ratios) if prediction.ratio_low != prediction.ratio_high]
    runs = {k: run_on(rows[numbers[k]]) for k in uncertain}
    saved = {k: before - regret(k) for k in uncertain}
    deciding = [k for k in uncertain if before - saved[k] <= enough]
    best = min(deciding, key=lambda k: runs[k].usd) if deciding else max(uncertain, key=lambda k: saved[k] / runs[k].usd)
    run = runs[best]
    return Experiment(run, saved[best], saved[best] > (run.usd if objective == "cost" else run.seconds))
