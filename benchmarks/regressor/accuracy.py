"""Accuracy of every recipe by every protocol, as a Markdown table; the paper's stack takes about a quarter of an hour.

    EPOCHCAST_SHARED=../shared python benchmarks/regressor/accuracy.py [--recipe NAME]... [--protocol NAME]...

``default+gp`` is the geometric mean of two parts ``default`` and one part ``gaussian-process``: what a smooth member would add.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np

from epochcast.regressor import Catalog, Evaluation, Profile, evaluate, load_catalog, load_corpus
from epochcast.regressor.pairs import make_pairs, target_seconds
from epochcast.regressor.protocols import PROTOCOLS, out_of_fold
from epochcast.regressor.recipes import RECIPES
from epochcast.regressor.scoring import score

DATA = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data" / "black_box" / "cloud_hw_trainpred.csv"


def row(recipe: str, protocol: str, result: Evaluation, seconds: float) -> str:
    """One line of the table."""
    if result.n == 0:
        return f"| {recipe} | {protocol} | – | – | – | – | – | 0 | 0.00 | – | – | {seconds:.0f} |"
    by = " / ".join(f"{gpu.split()[0]} {figures['mape']:.1f}" for gpu, figures in result.by.items())
    interval = "–"
    if result.interval_coverage is not None:
        interval = f"{100 * result.interval_coverage:.1f} % in ±{result.interval_half_width:.1f} %"
    figures = [
        f"{result.mape:.2f}",
        f"{result.spread[0]:.2f}–{result.spread[1]:.2f}",
        f"{result.median_ape:.2f}",
        f"{result.rmse:.2f}",
        f"{result.r2:.3f}",
        f"{result.n}",
        f"{result.coverage:.2f}",
    ]
    return f"| {recipe} | {protocol} | {' | '.join(figures)} | {by} | {interval} | {seconds:.0f} |"


def smooth_member(profiles: list[Profile], catalog: Catalog, protocol: str) -> str:
    """The line of ``default+gp``."""
    pairs = make_pairs(profiles, catalog)
    began = time.monotonic()
    scores = []
    for seed in range(5) if protocol == "P2" else (0,):
        trees = out_of_fold(pairs, protocol, RECIPES["default"](), seed)[0]
        smooth = out_of_fold(pairs, protocol, RECIPES["gaussian-process"](), seed)[0]
        mixed = np.where(np.isfinite(smooth), trees ** (2 / 3) * smooth ** (1 / 3), trees)
        scores.append(score(target_seconds(pairs), mixed))
    mean = {key: np.mean([getattr(one, key) for one in scores]) for key in ("mape", "median_ape", "rmse", "r2", "coverage")}
    spread = f"{min(one.mape for one in scores):.2f}–{max(one.mape for one in scores):.2f}"
    return (
        f"| default+gp | {protocol} | {mean['mape']:.2f} | {spread} | {mean['median_ape']:.2f} | {mean['rmse']:.2f} "
        f"| {mean['r2']:.3f} | {scores[0].n} | {mean['coverage']:.2f} | – | – | {time.monotonic() - began:.0f} |"
    )


def main() -> None:
    """Print the table, line by line as the figures come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", action="append", choices=[*RECIPES, "default+gp"])
    parser.add_argument("--protocol", action="append", choices=list(PROTOCOLS))
    arguments = parser.parse_args()
    profiles, catalog = load_corpus(DATA), load_catalog()
    print(f"{len(profiles)} profiles, {len(make_pairs(profiles, catalog))} pairs; MAPE and median in %, RMSE and time in s\n")
    print(
        "| recipe | protocol | MAPE | over seeds | median | RMSE | R² | n | answered | by source GPU | 90 % interval | took |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for recipe in arguments.recipe or [*RECIPES, "default+gp"]:
        for protocol in arguments.protocol or PROTOCOLS:
            if recipe == "default+gp":
                if protocol in ("P2", "P3"):
                    print(smooth_member(profiles, catalog, protocol), flush=True)
                continue
            began = time.monotonic()
            print(
                row(recipe, protocol, evaluate(profiles, catalog, protocol=protocol, recipe=recipe), time.monotonic() - began),
                flush=True,
            )


if __name__ == "__main__":
    main()
