"""Accuracy by every protocol next to the trivial baselines, and of a fitted model on jobs never seen.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.accuracy [PART]... [--write]

What `python -m lab.evaluate regressor` measures, for all recipes but the paper's models, which take minutes for one shuffle
(see `paper.py`), and the protocols P2 to P4. P1 leaks (`paper.py` shows it). Five minutes, most of them for shuffles of
the default.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from epochcast.regressor import load_catalog
from epochcast.regressor.pairs import make_pairs
from epochcast.regressor.recipes.paper import RawSecondsRecipe
from lab.corpora import load_corpus
from lab.evaluate.latency import Evaluation, evaluate, evaluate_split
from lab.rivals.latency import RECIPES
from lab.speed.page import REGRESSOR, markdown_table, part_options, publish_parts
from lab.speed.regressor.public_pairs import DATA, SEED

SPLITS = 10

COLUMNS = ("MAPE %", "over shuffles", "median %", "P90 %", "RMSE s", "R²", "n", "fastest GPU right", "regret %")
ENDS = ("MAPE %", "median %", "n", "in 90 % interval", "half-width %")
INTERVALS = ("inside", "median half-width %", "interval score", "of one width for all")

Titled = tuple[str, Evaluation]


def accuracy() -> Iterator[str]:
    """Every recipe by every protocol; intervals of the default, the first that has some, and its figures by GPU."""
    profiles = load_corpus(DATA)
    pairs = make_pairs(profiles, load_catalog())
    workloads = {pair.source.workload for pair in pairs}
    yield f"{len(profiles)} profiles, {len(pairs)} pairs of {len(workloads)} workloads, true epoch latency on the source."
    yield ""
    quick = [name for name, make in RECIPES.items() if not isinstance(make(), RawSecondsRecipe)]
    results: list[Titled] = []
    for protocol in ("P2", "P3", "P4"):
        results += [(protocol, evaluate(profiles, load_catalog(), protocol=protocol, recipe=recipe)) for recipe in quick]
    yield from markdown_table(("protocol", "recipe", *COLUMNS), map(figures, results))
    default = [(title, result) for title, result in results if result.recipe == "default"]
    yield ""
    yield "90 % intervals, calibrated fold by fold; the score is in log seconds, smaller is better:"
    yield ""
    yield from markdown_table(("protocol", "recipe", *INTERVALS), map(interval_figures, default))
    yield from by_gpu("source", [(title, result) for title, result in default if title in ("P2", "P3", "P4")])
    yield from by_gpu("target", [(title, result) for title, result in default if title == "P4"])


def figures(titled: Titled) -> list[str]:
    """The cells of :data:`COLUMNS`, after protocol and recipe."""
    title, result = titled
    if result.n == 0:
        return [title, result.recipe, *["–"] * 6, "0", "–", "–"]
    low, high = result.spread
    return [
        title,
        result.recipe,
        f"{result.mape:.2f}",
        f"{low:.2f}–{high:.2f}" if high > low else "one order",
        f"{result.median_ape:.2f}",
        f"{result.p90_ape:.1f}",
        f"{result.rmse:.2f}",
        f"{result.r2:.3f}",
        f"{result.n}",
        f"{100 * result.fastest_right:.1f} % of {result.fastest_n}",
        f"{result.fastest_regret:.1f}",
    ]


def interval_figures(titled: Titled) -> list[str]:
    """The cells of :data:`INTERVALS`, after protocol and recipe."""
    title, result = titled
    scores = (f"{result.interval_score:.3f}", f"{result.constant_width_score:.3f}")
    return [title, result.recipe, f"{100 * result.inside:.1f} %", f"{result.half_width:.1f}", *scores]


def by_gpu(end: str, results: Sequence[Titled]) -> Iterator[str]:
    """Figures per source or target GPU."""
    yield ""
    yield f"By {end} GPU:"
    yield ""
    rows = []
    for title, result in results:
        for gpu, of_gpu in result.by[f"{end}_gpu"].items():
            inside, half_width = f"{100 * of_gpu['inside']:.1f} %", f"{of_gpu['half_width']:.1f}"
            errors = (f"{of_gpu['mape']:.2f}", f"{of_gpu['median_ape']:.2f}", f"{of_gpu['n']}")
            rows.append((title, result.recipe, gpu, *errors, inside, half_width))
    yield from markdown_table(("protocol", "recipe", f"{end} GPU", *ENDS), rows)


def unseen_jobs() -> Iterator[str]:
    """Each split leaves two architectures and a quarter of the other workloads out, as a user's jobs are new in both ways.

    Intervals are those that the predictor gives, measured on the training side alone.
    """
    profiles, catalog, rng = load_corpus(DATA), load_catalog(), np.random.default_rng(SEED)
    pairs_of_models = list(combinations(sorted({profile.group or "" for profile in profiles}), 2))
    names, results = [], []
    for number in rng.permutation(len(pairs_of_models))[:SPLITS].tolist():
        models = pairs_of_models[number]
        others = sorted({profile.workload or "" for profile in profiles if profile.group not in models})
        drawn = set(rng.choice(others, len(others) // 4, replace=False).tolist())
        left_out = [profile.group in models or profile.workload in drawn for profile in profiles]
        train, test = (
            [profile for profile, leaves in zip(profiles, left_out, strict=True) if leaves == side] for side in (False, True)
        )
        result = evaluate_split(train, test, catalog)
        least = min(of_gpu["inside"] for of_gpu in result.by["source_gpu"].values())
        names.append(" and ".join(models))
        results.append((result.n, result.mape, result.median_ape, result.inside, least, result.half_width))
    header = ("left out, and a quarter of the rest", "n", "MAPE %", "median %", "in 90 % interval", "least by source")
    rows = [
        (name, f"{n:.0f}", f"{mape:.2f}", f"{median:.2f}", f"{inside:.1%}", f"{least:.1%}", f"{width:.1f}")
        for name, (n, mape, median, inside, least, width) in zip(
            [*names, "mean"], [*results, np.mean(results, axis=0)], strict=True
        )
    ]
    yield from markdown_table((*header, "half-width %"), rows)


if __name__ == "__main__":
    parts = {"accuracy": accuracy(), "unseen_jobs": unseen_jobs()}
    publish_parts(REGRESSOR, parts, part_options(__doc__))
