"""Accuracy where only latencies are known, on PROFET's data: one source GPU, several, and a new GPU with a few anchors.

    EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.latency_only [--write]

Every figure is the mean over pairs of GPUs or over targets of their MAPE, as in the research notes (section 7), on the
workloads that ran on every GPU. Features and the form of the kernel were settled on the same data with shuffle 0 in view:
expect slightly more on others. It takes about a minute.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, LeaveOneGroupOut

from epochcast.regressor import Catalog, Gpu, Profile, load_catalog, load_corpus
from epochcast.regressor.pairs import Pair, make_pairs, target_seconds
from epochcast.regressor.recipes.baselines import PairMedian, SpecificationRatio
from epochcast.regressor.recipes.latency_only import LatencyOnlyRecipe

from .latency_completion import LatencyCompletion
from .public_pairs import header, line, options, report

DATA = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data" / "black_box" / "profet_epoch_latency.csv.gz"
SEEDS = range(5)
DRAWS = 12
ANCHORS = (0, 1, 3, 5, 10, 20, 50)
NOTES = {0: 35.4, 1: 22.1, 3: 16.2, 5: 13.6, 10: 10.9, 20: 9.3, 50: 7.6}
"""Section 7 of the research notes, random anchors."""

Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


class Table:
    """Workloads by GPU: those that ran on every GPU of the file."""

    def __init__(self, profiles: list[Profile], catalog: Catalog) -> None:
        runs: dict[str, dict[str, Profile]] = {}
        for profile in profiles:
            runs.setdefault(str(profile.workload), {})[catalog.resolve(profile.gpu).name] = profile
        self.gpus = [catalog[name] for name in sorted({name for on in runs.values() for name in on})]
        self.all_workloads = len(runs)
        full = {workload: on for workload, on in runs.items() if len(on) == len(self.gpus)}
        self.rows = {workload: row for row, workload in enumerate(full)}
        self.pairs = make_pairs([profile for on in full.values() for profile in on.values()], catalog)
        self.models = np.array([on[self.gpus[0].name].group for on in full.values()])
        self.epoch_s = np.array([[on[gpu.name].epoch_s for gpu in self.gpus] for on in full.values()], dtype=np.float64)
        self.step_s = np.array([[on[gpu.name].step_s for gpu in self.gpus] for on in full.values()], dtype=np.float64)

    def folds(self, seed: int) -> Folds:
        """Five folds of workloads."""
        return list(KFold(5, shuffle=True, random_state=seed).split(self.epoch_s))

    def model_folds(self) -> Folds:
        """One fold per model."""
        return list(LeaveOneGroupOut().split(self.epoch_s, groups=self.models))

    def completions(self) -> Iterator[tuple[LatencyCompletion, NDArray[np.float64], NDArray[np.float64]]]:
        """Each GPU as the target: estimator, seconds on the others, seconds on it."""
        for column, target in enumerate(self.gpus):
            others = [other for other in range(len(self.gpus)) if other != column]
            X = np.hstack([self.epoch_s[:, others], self.step_s[:, others]])
            yield LatencyCompletion([self.gpus[other] for other in others], target), X, self.epoch_s[:, column]


def ape(predicted: NDArray[np.float64], actual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Absolute percentage error."""
    return 100 * np.abs(predicted / actual - 1)


def one_source(table: Table, recipe: Callable[[], LatencyOnlyRecipe | PairMedian | SpecificationRatio], folds: Folds) -> float:
    """Mean over the pairs of GPUs of their MAPE; every GPU pair holds the same workloads, so that is the mean of all."""
    workload = np.array([table.rows[str(pair.source.workload)] for pair in table.pairs])
    actual, errors = target_seconds(table.pairs), []
    for train, test in folds:
        rows = np.flatnonzero(np.isin(workload, test))
        fitted = recipe().fit(_take(table.pairs, np.flatnonzero(np.isin(workload, train))))
        errors.append(ape(fitted.predict(_take(table.pairs, rows)), actual[rows]))
    return float(np.concatenate(errors).mean())


def several_sources(table: Table, folds: Folds) -> list[float]:
    """MAPE per target, the other GPUs known."""
    mapes = []
    for estimator, X, y in table.completions():
        errors = [ape(estimator.fit(X[train], y[train]).predict(X[test]), y[test]) for train, test in folds]
        mapes.append(float(np.concatenate(errors).mean()))
    return mapes


def new_gpu(table: Table, count: int, draws: int, *, chosen: bool) -> NDArray[np.float64]:
    """MAPE per draw and target, shape (draws, targets), on the workloads that are no anchors."""
    mapes = np.empty((draws, len(table.gpus)))
    for target, (estimator, X, y) in enumerate(table.completions()):
        for draw in range(draws):
            if chosen:
                anchors = estimator.set_params(random_state=draw).choose(X, count)
            else:
                anchors = np.random.default_rng(draw).permutation(len(X))[:count]
            known, tested = np.full(len(y), np.nan), np.setdiff1d(np.arange(len(y)), anchors)
            known[anchors] = y[anchors]
            mapes[draw, target] = ape(estimator.fit(X, known).predict(X[tested]), y[tested]).mean()
    return mapes


def _take(pairs: list[Pair], rows: NDArray[np.intp]) -> list[Pair]:
    return [pairs[row] for row in rows.tolist()]


def _by(gpus: list[Gpu], figures: NDArray[np.float64]) -> str:
    return " / ".join(f"{gpu.name.split()[0]} {figure:.1f}" for gpu, figure in zip(gpus, figures, strict=True))


def parts(table: Table) -> Iterator[str]:
    """The tables of the page."""
    yield (
        f"PROFET's epoch and step seconds, no telemetry: {len(table.rows)} of {table.all_workloads} workloads ran on all of "
        f"{', '.join(gpu.name for gpu in table.gpus)}; MAPE in %, mean over pairs of GPUs (n = {len(table.pairs)}) or over "
        f"targets (n = {table.epoch_s.size}). 5 folds of workloads: mean and range over {len(SEEDS)} shuffles."
    )
    yield ""
    yield from header("one source GPU", "5 folds", "range", "a model left out", "research notes")
    recipes = {
        "same latency": (SpecificationRatio, "–"),
        "FLOP/s ratio": (lambda: SpecificationRatio("flops"), "–"),
        "bandwidth ratio": (lambda: SpecificationRatio("memory_bandwidth"), "–"),
        "pair median": (PairMedian, "21.4, 22.2"),
        "`latency-only`": (LatencyOnlyRecipe, "14.3, 16.7"),
    }
    for name, (recipe, notes) in recipes.items():
        mapes = [one_source(table, recipe, table.folds(seed)) for seed in SEEDS]
        left_out = one_source(table, recipe, table.model_folds())
        yield line(name, f"{np.mean(mapes):.1f}", f"{min(mapes):.1f}–{max(mapes):.1f}", f"{left_out:.1f}", notes)
    yield ""
    yield from header("all other GPUs known", "MAPE", "range", "by target", "research notes")
    by_seed = np.array([several_sources(table, table.folds(seed)) for seed in SEEDS])
    mean, spread = by_seed.mean(axis=0), by_seed.mean(axis=1)
    yield line("5 folds", f"{mean.mean():.2f}", f"{spread.min():.2f}–{spread.max():.2f}", _by(table.gpus, mean), "5.7")
    left_out = np.array(several_sources(table, table.model_folds()))
    yield line("a model left out", f"{left_out.mean():.2f}", "–", _by(table.gpus, left_out), "9.0")
    yield ""
    yield (
        f"A new GPU, the others known for all workloads, k anchors measured on it, tested on the rest: mean ± standard "
        f"deviation. At random: {DRAWS} draws; chosen: nearest the centres of k clusters, {len(SEEDS)} seeds of k-means."
    )
    yield ""
    yield from header("k", "at random", "by target", "chosen", "by target", "research notes, at random")
    for count in ANCHORS:
        random = new_gpu(table, count, DRAWS if count else 1, chosen=False)
        cells = [f"{random.mean():.1f}" + (f" ± {random.mean(axis=1).std(ddof=1):.1f}" if count else "")]
        cells.append(_by(table.gpus, random.mean(axis=0)))
        if count:
            chosen = new_gpu(table, count, len(SEEDS), chosen=True)
            cells += [f"{chosen.mean():.1f} ± {chosen.mean(axis=1).std(ddof=1):.1f}", _by(table.gpus, chosen.mean(axis=0))]
        else:
            cells += ["–", "–"]
        yield line(f"{count}", *cells, f"{NOTES[count]}")


if __name__ == "__main__":
    chosen_options = options(__doc__ or "")
    report("latency_only", parts(Table(load_corpus(DATA), load_catalog())), chosen_options)
