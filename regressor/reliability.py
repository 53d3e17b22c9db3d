"""What a recipe's answers are worth: accuracy and intervals on pairs that it was fitted without."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import product
from typing import cast

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.answers import Answers
from epochcast.regressor.errors import InputError
from epochcast.regressor.intervals import ScaledInterval
from epochcast.regressor.pairs import Pair, actual_ratio, at, target_seconds
from epochcast.regressor.profile import Profile
from epochcast.regressor.protocols import Rows, fitted_without
from epochcast.regressor.recipes import Recipe
from epochcast.regressor.recipes.default import TYPE_UNKNOWN, DefaultRecipe
from epochcast.regressor.scoring import FEWEST_ERRORS, score
from epochcast.regressor.telemetry import has_telemetry

Progress = Callable[[str], object]
"""Called with the name of each step before it."""


def leave_out(
    pairs: Sequence[Pair],
    protocols: Sequence[str],
    unfitted: Recipe,
    progress: Progress,
    also: Callable[[Recipe, Rows], object] = lambda recipe, test: None,
    families: bool = False,
) -> tuple[str, dict[str, float], NDArray[np.float64]]:
    """The first of the protocols that the data suffice for, its error figures, and log errors of the pairs, shape (n,).

    Raises:
        InputError: they suffice for none.
    """
    for protocol in protocols:

        def step(done: int, folds: int, of: str = protocol) -> None:
            progress(f"{of}: fit {done + 1} of {folds}")

        seconds = np.full(len(pairs), np.nan)
        try:
            for recipe, test in fitted_without(pairs, protocol, unfitted, progress=step, families=families):
                seconds[test] = recipe.predict(at(pairs, test))
                also(recipe, test)
        except InputError as error:
            refused = error
        else:
            actual = target_seconds(pairs)
            return protocol, asdict(score(actual, seconds)), np.log(seconds / actual)
    raise refused


def measure_reliability(
    pairs: Sequence[Pair], unfitted: DefaultRecipe, progress: Progress = lambda step: None
) -> tuple[dict[str, dict[str, float]], dict[str, ScaledInterval]]:
    """Leave families (P3; workloads, P2, where they are not known) and GPUs (P4) out in turn.

    Each pair is asked as a user asks, with the type of the job and without: its family is a new one. Equal networks of all
    collections leave together. A cell without errors enough has those of the nearest one that is wider. ``progress`` is called
    with the name of each step before it: there are some dozen fits.

    Returns:
        Error figures per protocol, and the interval of each cell of answers.

    Raises:
        InputError: fewer than five workloads were seen on two GPUs.
    """
    accuracy: dict[str, dict[str, float]] = {}
    intervals: dict[str, ScaledInterval] = {}
    rows: list[Rows] = []
    given: list[Answers] = []

    def ask(recipe: Recipe, test: Rows) -> None:
        """As users ask who tell the type or do not, with telemetry and without."""
        left_out = at(pairs, test)
        for stated, recorded in product((True, False), repeat=2):
            if recorded or any(has_telemetry(pair.source) for pair in left_out):
                rows.append(test)
                questions = [replace(pair, source=as_new(pair.source, stated, recorded)) for pair in left_out]
                given.append(cast(DefaultRecipe, recipe).answer(questions))

    groups = np.array([pair.source.group or pair.source.workload or "" for pair in pairs])
    # Without a GPU left out, a fold may lack one by chance, which counts for nothing.
    for protocols, cells in ((("P3", "P2"), ("speeds", "telemetry")), (("P4",), ("specifications",))):
        rows.clear()
        given.clear()
        try:
            protocol, figures, _ = leave_out(pairs, protocols, unfitted, progress, ask, families=True)
        except InputError:
            if not accuracy:
                raise
            continue
        accuracy[protocol] = figures
        row, answers = np.concatenate(rows), Answers.concatenate(given)
        errors = answers.log_ratio - np.log(actual_ratio(pairs))[row]
        for cell in (name + end for name in cells for end in ("", TYPE_UNKNOWN)):
            here = np.flatnonzero(answers.cells == cell)
            if len(here) >= FEWEST_ERRORS:
                intervals[cell] = ScaledInterval.of_errors(errors[here] / answers.scale[here], groups[row[here]], protocol)
    return accuracy, _with_all_cells(intervals)


def as_new(profile: Profile, stated: bool, recorded: bool) -> Profile:
    """A job as somebody asks about it whose network nobody measured; with its type and telemetry, or without."""
    held = {} if recorded else {"metrics": {}, "feature_set": "none"}
    return replace(profile, workload=None, group=None, type=profile.type if stated else None, **held)  # type: ignore[arg-type]


def _with_all_cells(intervals: dict[str, ScaledInterval]) -> dict[str, ScaledInterval]:
    """Fill cells that no protocol measured; where both GPUs are new the wider of two is taken for the third."""
    widest = max(intervals.values(), key=lambda interval: interval.multiple)
    filled = dict(intervals)
    for end, other in ((TYPE_UNKNOWN, ""), ("", TYPE_UNKNOWN)):
        speeds = intervals.get(f"speeds{end}") or intervals.get(f"speeds{other}") or widest
        new = intervals.get(f"specifications{end}") or intervals.get(f"specifications{other}") or speeds
        filled |= {f"speeds{end}": speeds, f"specifications{end}": new}
        filled[f"both new{end}"] = max(speeds, new, key=lambda interval: interval.multiple)
    return {"telemetry": widest} | filled
