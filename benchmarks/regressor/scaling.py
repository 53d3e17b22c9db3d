"""More GPUs in one machine: what ``regressor/scaling.py`` says of jobs that it never saw, as tables.

    EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.scaling [--write]

Each group of workloads is left out in turn. The first table moves a job from one GPU to several of the same kind, the second
from one GPU to several of another kind, by the speeds of GPUs that were learnt without the group. Two minutes.
"""

from collections.abc import Iterator

import numpy as np

from epochcast.regressor import Catalog, Profile, load_catalog, load_corpus
from epochcast.regressor.evaluation.interval_scores import score_intervals
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs
from epochcast.regressor.protocols import out_of_fold
from epochcast.regressor.recipes import SpeedsRecipe
from epochcast.regressor.scaling import Growth, Scaling, growths_in
from epochcast.regressor.scoring import conformal_quantile

from .public_pairs import RATES, header, line, options, report

COLUMNS = ("to", "n", "MAPE %", "median %", "mean over groups %", "inside %", "half-width %")


def lines() -> Iterator[str]:
    """The tables, line by line as the figures come."""
    profiles, catalog = load_corpus(RATES), load_catalog()
    growths = growths_in(profiles, catalog)
    fitted = Scaling.fit(growths)
    yield f"Fitted on all: {fitted}."
    yield ""
    without = {group: Scaling.fit([one for one in growths if one.group != group]) for group in {one.group for one in growths}}
    growths = [one for one in growths if one.before == 1]
    of_groups = {one.group for one in growths}
    origins = {str(one.group): str(one.origin) for one in profiles if one.group in of_groups and one.gpus > 1}
    yield from same_kind(growths, without, origins)
    yield ""
    yield from other_kind(profiles, catalog, without)


def same_kind(growths: list[Growth], without: dict[str, Scaling], origins: dict[str, str]) -> Iterator[str]:
    """From one GPU to several of its kind, beside two rules that learn less."""
    groups, after = np.array([one.group for one in growths]), np.array([one.after for one in growths])
    actual = np.array([one.log_seconds for one in growths])
    typical = np.array([np.median(actual[(groups != one.group) & (after == one.after)]) for one in growths])
    by_group = np.array([np.median((actual + np.log(after))[groups == one.group]) for one in growths]) - np.log(after)
    error = np.array([without[one.group].error(one) for one in growths])
    width = np.array([without[one.group].width(1, one.after) for one in growths])
    yield from header(*COLUMNS)
    for number in (2, 4, 8):
        rows = after == number
        yield _row(f"{number} of the same kind", error[rows], width[rows], groups[rows])
    yield _row("all of these", error, width, groups)
    for origin in sorted(set(origins.values())):
        rows = np.array([origins[group] == origin for group in groups.tolist()])
        yield _row(f"... of `{origin}`", error[rows], width[rows], groups[rows])
    none = np.full(len(error), np.nan)
    yield _row("... n times as fast", -np.log(after) - actual, none, groups)
    yield _row("... the median of other groups", typical - actual, none, groups)
    yield _row("... the group's own median (not known to a new job)", by_group - actual, none, groups)


def other_kind(profiles: list[Profile], catalog: Catalog, without: dict[str, Scaling]) -> Iterator[str]:
    """From one GPU to several of another kind: the speeds at equal numbers, and then the number."""
    at_equal = make_pairs(profiles, catalog)
    moved = _moved(profiles, catalog)
    groups = np.array([pair.source.group for pair, _ in moved])
    error, scale = np.full((2, len(moved)), np.nan)

    def ask(recipe: SpeedsRecipe, test: np.ndarray) -> None:
        rows = np.flatnonzero(groups == at_equal[test[0]].source.group)
        answers = recipe.answer([moved[row][0] for row in rows.tolist()])
        error[rows], scale[rows] = answers.log_ratio, answers.scale

    _, _, answers = out_of_fold(at_equal, "new-workload", SpeedsRecipe(), also=ask)
    assert answers is not None
    scaled = (answers.log_ratio - np.log(actual_ratio(at_equal))) / answers.scale
    of_equal = np.array([pair.source.group for pair in at_equal])
    multiple = {group: conformal_quantile(scaled[of_equal != group]) for group in set(groups.tolist())}
    after = np.array([number for _, number in moved])
    width = np.array([multiple[group] for group in groups.tolist()]) * scale
    for row, (pair, number) in enumerate(moved):
        scaling = without.get(groups[row], Scaling())
        error[row] += scaling.log_seconds(pair.target_gpu, number) - np.log(actual_ratio([pair])[0])
        width[row] = np.hypot(width[row], scaling.width(1, number))
    yield from header(*COLUMNS)
    for number in (2, 4, 8):
        rows = after == number
        yield _row(f"{number} of another kind", error[rows], width[rows], groups[rows])
    yield _row("all of these", error, width, groups)


def _moved(profiles: list[Profile], catalog: Catalog) -> list[tuple[Pair, int]]:
    """One GPU against several of another kind at the same work."""
    moved = []
    for source in profiles:
        for target in profiles:
            same = source.workload == target.workload and source.gpu != target.gpu
            if same and source.gpus == 1 < target.gpus:
                pair = Pair(source, catalog.resolve(source.gpu), catalog.resolve(target.gpu), target.epoch_s)
                moved.append((pair, target.gpus))
    return moved


def _row(name: str, error: np.ndarray, width: np.ndarray, groups: np.ndarray) -> str:
    ape = 100 * np.abs(np.expm1(error))
    of_groups = np.mean([ape[groups == group].mean() for group in sorted(set(groups.tolist()))])
    scores = score_intervals(error, width)
    interval = ("", "") if np.isnan(scores.inside) else (f"{100 * scores.inside:.1f}", f"{scores.half_width:.0f}")
    return line(name, str(len(error)), f"{ape.mean():.1f}", f"{np.median(ape):.1f}", f"{of_groups:.1f}", *interval)


if __name__ == "__main__":
    report("scaling", lines(), options(__doc__ or ""))
