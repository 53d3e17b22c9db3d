"""More GPUs in one machine: what ``regressor/scaling.py`` says of jobs that it never saw, as tables.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.scaling [--write]

Each group of workloads is left out in turn. The first table moves a job from one GPU to several of the same kind, the second
from one GPU to several of another kind, by the speeds of GPUs that were learnt without the group. Two minutes.
"""

from collections.abc import Iterator

import numpy as np

from epochcast.regressor import Catalog, Profile, load_catalog, load_corpus
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs
from epochcast.regressor.protocols import out_of_fold
from epochcast.regressor.recipes import DefaultRecipe, Recipe
from epochcast.regressor.scaling import GpuCountScaling, Growth, growths_in
from epochcast.regressor.scoring import conformal_quantile
from lab.evaluate.latency.interval_scores import score_intervals
from lab.speed.page import REGRESSOR, markdown_table, options, publish
from lab.speed.regressor.public_pairs import RATES

NUMBERS = (2, 4, 8)
COLUMNS = ("to", "n", "MAPE %", "median %", "mean over groups %", "inside %", "half-width %")

Row = tuple[str, ...]


def lines() -> Iterator[str]:
    """The fitted model, and both tables."""
    profiles, catalog = load_corpus(RATES), load_catalog()
    growths = growths_in(profiles, catalog)
    yield f"Fitted on all: {GpuCountScaling.fit(growths)}."
    yield ""
    groups = {growth.group for growth in growths}
    without = {group: GpuCountScaling.fit([growth for growth in growths if growth.group != group]) for group in groups}
    origins = {str(profile.group): str(profile.origin) for profile in profiles if profile.gpus > 1}
    of_one = [growth for growth in growths if growth.before == 1]
    yield from markdown_table(COLUMNS, same_kind(of_one, without, origins))
    yield ""
    yield from markdown_table(COLUMNS, other_kind(profiles, catalog, without))


def same_kind(growths: list[Growth], without: dict[str, GpuCountScaling], origins: dict[str, str]) -> Iterator[Row]:
    """From one GPU to several of its kind, next to three rules that learn less or know more."""
    groups, after = np.array([growth.group for growth in growths]), np.array([growth.after for growth in growths])
    origin = np.array([origins[group] for group in groups.tolist()])
    actual = np.array([growth.log_seconds for growth in growths])
    typical = np.array([np.median(actual[(groups != growth.group) & (after == growth.after)]) for growth in growths])
    own = np.array([np.median((actual + np.log(after))[groups == growth.group]) for growth in growths]) - np.log(after)
    error = np.array([without[growth.group].error(growth) for growth in growths])
    width = np.array([without[growth.group].width(1, growth.after) for growth in growths])
    yield from _rows("the same", after, error, width, groups)
    for name in np.unique(origin).tolist():
        here = origin == name
        yield _row(f"... of `{name}`", error[here], width[here], groups[here])
    none = np.full(len(error), np.nan)
    yield _row("... n times as fast", -np.log(after) - actual, none, groups)
    yield _row("... the median of other groups", typical - actual, none, groups)
    yield _row("... the group's own median (not known to a new job)", own - actual, none, groups)


def other_kind(profiles: list[Profile], catalog: Catalog, without: dict[str, GpuCountScaling]) -> Iterator[Row]:
    """From one GPU to several of another kind: the speeds at equal numbers, and then the number."""
    at_equal = make_pairs(profiles, catalog)
    moved = [
        (Pair(source, catalog.resolve(source.gpu), catalog.resolve(target.gpu), target.epoch_s), target.gpus)
        for source in profiles
        for target in profiles
        if source.workload == target.workload and source.gpu != target.gpu and source.gpus == 1 < target.gpus
    ]
    groups = np.array([pair.source.group for pair, _ in moved])
    error, scale = np.full((2, len(moved)), np.nan)

    def ask(recipe: Recipe, test: np.ndarray) -> None:
        assert isinstance(recipe, DefaultRecipe)
        rows = np.flatnonzero(groups == at_equal[test[0]].source.group)
        if not rows.size:  # a group that ran on one number of GPUs
            return
        answers = recipe.answer([moved[row][0] for row in rows.tolist()])
        error[rows], scale[rows] = answers.log_ratio, answers.scale

    _, _, answers = out_of_fold(at_equal, "P3", DefaultRecipe(), also=ask)
    assert answers is not None
    scaled = (answers.log_ratio - np.log(actual_ratio(at_equal))) / answers.scale
    of_equal = np.array([pair.source.group for pair in at_equal])
    multiple = {group: conformal_quantile(scaled[of_equal != group]) for group in set(groups.tolist())}
    width = np.array([multiple[group] for group in groups.tolist()]) * scale
    for row, (pair, number) in enumerate(moved):
        scaling = without.get(groups[row], GpuCountScaling())
        error[row] += scaling.log_seconds(pair.target_gpu, number) - np.log(actual_ratio([pair])[0])
        width[row] = np.hypot(width[row], scaling.width(1, number))
    yield from _rows("another", np.array([number for _, number in moved]), error, width, groups)


def _rows(kind: str, after: np.ndarray, error: np.ndarray, width: np.ndarray, groups: np.ndarray) -> Iterator[Row]:
    for number in NUMBERS:
        here = after == number
        yield _row(f"{number} of {kind} kind", error[here], width[here], groups[here])
    yield _row("all of these", error, width, groups)


def _row(name: str, error: np.ndarray, width: np.ndarray, groups: np.ndarray) -> Row:
    ape = 100 * np.abs(np.expm1(error))
    of_groups = np.mean([ape[groups == group].mean() for group in sorted(set(groups))])
    scores = score_intervals(error, width)
    interval = ("", "") if np.isnan(scores.inside) else (f"{100 * scores.inside:.1f}", f"{scores.half_width:.0f}")
    return name, f"{len(error)}", f"{ape.mean():.1f}", f"{np.median(ape):.1f}", f"{of_groups:.1f}", *interval


if __name__ == "__main__":
    publish(REGRESSOR, "scaling", lines(), write=options(__doc__).parse_args().write)
