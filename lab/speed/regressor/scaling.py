"""More GPUs in one machine: what ``regressor/scaling.py`` says of jobs that it never saw, as tables.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.scaling [--write]

Each group of workloads is left out in turn. The first table moves a job from one GPU to several of the same kind, the second
from one GPU to several of another kind, by the speeds of GPUs that were learnt without the group. Two minutes.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from epochcast.regressor import Catalog, Gpu, Profile, load_catalog
from epochcast.regressor.pairs import Pair, actual_ratio, at, make_pairs
from epochcast.regressor.protocols import fitted_without
from epochcast.regressor.recipes import DefaultRecipe
from epochcast.regressor.scaling import GpuCountScaling, doublings
from epochcast.regressor.scoring import conformal_quantile
from lab.corpora import load_corpus
from lab.evaluate.latency.interval_scores import score_intervals
from lab.speed.page import REGRESSOR, markdown_table, options, publish
from lab.speed.regressor.public_pairs import RATES

NUMBERS = (2, 4, 8)
COLUMNS = ("to", "n", "MAPE %", "median %", "mean over groups %", "inside %", "half-width %")

Row = tuple[str, ...]
Vector = NDArray[np.float64]

# Errors beyond count linearly: some tables hold rates of other settings (BERT on 8 H200 2.5 times as fast as 8 of one).
# By choice.
_OUTLIER = 0.05


class Growth(NamedTuple):
    """One work measured on two numbers of GPUs of one kind.

    Attributes:
        gpu: the kind.
        group: of the work.
        before, after: numbers of GPUs.
        log_seconds: log of seconds with ``after`` over seconds with ``before``.
        batch_share: batch on each GPU after over before, 1 where it is not known.
    """

    gpu: Gpu
    group: str
    before: int
    after: int
    log_seconds: float
    batch_share: float = 1.0


class Fitted(GpuCountScaling):
    """The product's model, fitted."""

    @classmethod
    def fit(cls, growths: Sequence[Growth]) -> Self:
        """Learn from measured growths.

        The half-width is the conformal quantile of the errors on groups left out.
        """
        groups = np.array([growth.group for growth in growths])
        errors = np.empty(len(growths))
        for group in set(groups.tolist()):
            here = groups == group
            without = cls._fitted([growths[row] for row in np.flatnonzero(~here).tolist()])
            for row in np.flatnonzero(here).tolist():
                errors[row] = without.error(growths[row]) / doublings(growths[row].before, growths[row].after) ** 0.5
        return cls(**asdict(cls._fitted(growths)) | {"half_width": conformal_quantile(errors)})

    @classmethod
    def _fitted(cls, growths: Sequence[Growth]) -> Self:
        def errors(coefficients: Vector) -> Vector:
            tried = cls(*coefficients.tolist())
            return np.array([tried.error(growth) for growth in growths])

        # Bounds by choice: links and rates help, and no more than in proportion.
        start, bounds = [cls.log_cost, cls.link, cls.rate], ([-10, 0, 0], [5, 1, 1])
        fitted = least_squares(errors, start, bounds=bounds, loss="soft_l1", f_scale=_OUTLIER)
        return cls(*fitted.x.tolist())

    def error(self, growth: Growth) -> float:
        """Log of predicted over measured seconds."""
        after = self.log_seconds(growth.gpu, growth.after, growth.batch_share)
        return after - self.log_seconds(growth.gpu, growth.before) - growth.log_seconds


def growths_in(profiles: Sequence[Profile], catalog: Catalog) -> list[Growth]:
    """The growths of each workload on one kind of GPU, from the smallest number of them to each larger one."""
    runs: dict[tuple[str, str], list[Profile]] = defaultdict(list)
    for profile in profiles:
        if profile.workload is not None and profile.epoch_s is not None:
            runs[profile.workload, catalog.resolve(profile.gpu).name].append(profile)
    growths = []
    for (workload, gpu), of_work in runs.items():
        first, *larger = sorted(of_work, key=lambda profile: profile.gpus)
        for profile in larger:
            if profile.gpus > first.gpus and first.epoch_s and profile.epoch_s:
                log_seconds = float(np.log(profile.epoch_s / first.epoch_s))
                share = _batch_share(first, profile)
                growths.append(Growth(catalog[gpu], first.group or workload, first.gpus, profile.gpus, log_seconds, share))
    return growths


def _batch_share(before: Profile, after: Profile) -> float:
    """1 where a batch is not known, or where the two cannot be of one job (tables count items in more than one way).

    It may be cut as far as one batch for all, and an eighth of that (by choice).
    """
    if before.batch is None or after.batch is None:
        return 1.0
    share = after.batch / before.batch
    return share if before.gpus / after.gpus / 8 <= share <= 1 else 1.0


def lines() -> Iterator[str]:
    """The fitted model, and both tables."""
    profiles, catalog = load_corpus(RATES), load_catalog()
    growths = growths_in(profiles, catalog)
    yield f"Fitted on all: {Fitted.fit(growths)}."
    yield ""
    groups = {growth.group for growth in growths}
    without = {group: Fitted.fit([growth for growth in growths if growth.group != group]) for group in groups}
    origins = {str(profile.group): str(profile.origin) for profile in profiles if profile.gpus > 1}
    of_one = [growth for growth in growths if growth.before == 1]
    yield from markdown_table(COLUMNS, same_kind(of_one, without, origins))
    yield ""
    yield from markdown_table(COLUMNS, other_kind(profiles, catalog, without))


def same_kind(growths: list[Growth], without: dict[str, Fitted], origins: dict[str, str]) -> Iterator[Row]:
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


def other_kind(profiles: list[Profile], catalog: Catalog, without: dict[str, Fitted]) -> Iterator[Row]:
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

    scaled = np.full(len(at_equal), np.nan)
    for recipe, test in fitted_without(at_equal, "P3", DefaultRecipe()):
        assert isinstance(recipe, DefaultRecipe)
        asked = at(at_equal, test)
        answers = recipe.answer(asked)
        scaled[test] = (answers.log_ratio - np.log(actual_ratio(asked))) / answers.scale
        rows = np.flatnonzero(groups == asked[0].source.group)
        if rows.size:  # else a group that ran on one number of GPUs
            answers = recipe.answer([moved[row][0] for row in rows.tolist()])
            error[rows], scale[rows] = answers.log_ratio, answers.scale
    of_equal = np.array([pair.source.group for pair in at_equal])
    multiple = {group: conformal_quantile(scaled[of_equal != group]) for group in set(groups.tolist())}
    width = np.array([multiple[group] for group in groups.tolist()]) * scale
    for row, (pair, number) in enumerate(moved):
        scaling = without.get(groups[row], Fitted())
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
