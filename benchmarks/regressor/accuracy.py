"""Accuracy on the public data by every protocol, beside the trivial baselines, as Markdown tables.

    EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.accuracy [--recipe NAME]... [--protocol NAME]... [--write]

By default all recipes but the paper's models, which take minutes for one shuffle and stand in the ablations' tables, and all
protocols but those of rates, which are P3 and P4 here; P4-anchors runs with 5, 10 and 20 anchors. The column "took" is CPU
time; five shuffles of the default recipe are most of it.
"""

import argparse
import time
from collections.abc import Iterator, Sequence

import numpy as np

from epochcast.regressor import RECIPES, Evaluation, evaluate, load_catalog, load_corpus
from epochcast.regressor.pairs import make_pairs
from epochcast.regressor.protocols import ANCHORED, PROTOCOLS
from epochcast.regressor.recipes.raw_seconds import RawSecondsRecipe

from .public_pairs import DATA, header, line, report

ANCHORS = (5, 10, 20)
BY_DEFAULT = [name for name in PROTOCOLS if name not in ("new-workload", "new-gpu")]

COLUMNS = ("protocol", "recipe", "MAPE %", "over shuffles", "median %", "P90 %", "RMSE s", "R²", "n", "fastest GPU right")
ENDS = ("MAPE %", "median %", "n", "in 90 % interval", "half-width %")


def lines(recipes: Sequence[str], protocols: Sequence[str]) -> Iterator[str]:
    """All tables, line by line as the figures come."""
    profiles, catalog = load_corpus(DATA), load_catalog()
    pairs = make_pairs(profiles, catalog)
    workloads = {pair.source.workload for pair in pairs}
    yield f"{len(profiles)} profiles, {len(pairs)} pairs of {len(workloads)} workloads, true epoch latency on the source."
    yield ""
    yield from header(*COLUMNS, "regret %", "took, CPU s")
    found: list[tuple[str, Evaluation]] = []
    for protocol in protocols:
        for anchors in ANCHORS if protocol == ANCHORED else (0,):
            title = f"P4, {anchors} anchors" if anchors else protocol
            for recipe in recipes:
                began = time.process_time()
                seeds = (0,) if protocol == "P1" else None  # it only shows the leak; one shuffle does
                result = evaluate(profiles, catalog, protocol=protocol, recipe=recipe, seeds=seeds, anchors=anchors)
                yield line(title, recipe, *figures(result), f"{time.process_time() - began:.0f}")
                found.append((title, result))
    # Of several recipes with intervals the first asked for: the others are its variants.
    sure = [(title, result) for title, result in found if not np.isnan(result.inside)]
    sure = [(title, result) for title, result in sure if result.recipe == sure[0][1].recipe]
    if sure:
        yield from intervals(sure)
        yield from ends("source", [(title, result.recipe, result.by["source_gpu"]) for title, result in sure])
        new = [(title, result.recipe, result.by["target_gpu"]) for title, result in sure if title.startswith("P4")]
        yield from ends("target", new)


def figures(result: Evaluation) -> list[str]:
    """The cells of :data:`COLUMNS` from MAPE on, and regret."""
    if result.n == 0:
        return [*["–"] * 6, "0", "–", "–"]
    low, high = result.spread
    return [
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


def intervals(found: Sequence[tuple[str, Evaluation]]) -> Iterator[str]:
    """Coverage, width and score of the intervals, and of one width for all answers."""
    yield ""
    yield "90 % intervals, calibrated fold by fold; the score is in log seconds, smaller is better:"
    yield ""
    yield from header("protocol", "recipe", "inside", "median half-width %", "interval score", "of one width for all")
    for title, result in found:
        yield line(
            title,
            result.recipe,
            f"{100 * result.inside:.1f} %",
            f"{result.interval_half_width:.1f}",
            f"{result.interval_score:.3f}",
            f"{result.constant_width_score:.3f}",
        )


def ends(end: str, found: Sequence[tuple[str, str, dict[str, dict[str, float]]]]) -> Iterator[str]:
    """Figures per source or target GPU."""
    if not found:
        return
    yield ""
    yield f"By {end} GPU:"
    yield ""
    yield from header("protocol", "recipe", f"{end} GPU", *ENDS)
    for title, recipe, by in found:
        for gpu, one in by.items():
            cells = (f"{one['mape']:.2f}", f"{one['median_ape']:.2f}", f"{one['n']}")
            inside = f"{100 * one['inside']:.1f} %"
            yield line(title, recipe, gpu, *cells, inside, f"{one['interval_half_width']:.1f}")


def main() -> None:
    """Print the tables, and put them into docs/regressor.md if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", action="append", choices=list(RECIPES))
    parser.add_argument("--protocol", action="append", choices=list(PROTOCOLS))
    parser.add_argument("--write", action="store_true", help="put the part into docs/regressor.md")
    chosen = parser.parse_args()
    quick = [name for name, make in RECIPES.items() if not isinstance(make(), RawSecondsRecipe)]
    report("accuracy", lines(chosen.recipe or quick, chosen.protocol or BY_DEFAULT), chosen)


if __name__ == "__main__":
    main()
