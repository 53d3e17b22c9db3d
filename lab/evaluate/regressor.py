"""Compare predicted latency on other GPUs with measurements and simple rules.

python -m lab.evaluate regressor --data cloud_hw_trainpred.csv --protocol P4
python -m lab.evaluate regressor --train rates.csv.gz --test rates_2.csv.gz

A workload that is in both is answered by a fit without it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochcast.analyzer.cli import progress
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.commands import gpus_option, note
from lab.corpora import load_profiles
from lab.evaluate.common.comparison import check_rows, compared, each_recipe, rows_options
from lab.evaluate.latency.stated import STATED

if TYPE_CHECKING:
    from epochcast.regressor import Profile


def options(parser: argparse.ArgumentParser) -> None:
    """Which pairs of GPUs to predict, from which others, and by which recipe."""
    rows_options(parser, "corpora")
    parser.add_argument(
        "--shipped",
        action="store_true",
        help="test the shipped model; cloud_hw_trainpred, rates and rates_2 are in-sample, as it was fitted on them",
    )
    parser.add_argument(
        "--protocol",
        help="P2 new workload (default), P1 random rows (leaks), P3 new architecture or family, P4 new GPU",
    )
    parser.add_argument("--families", action="store_true", help="leave out equal networks of all sources (P3)")
    parser.add_argument(
        "--stated", choices=STATED, default="family", help="what a tested job says of itself (default: its type and its family)"
    )
    parser.add_argument("--recipe", default="default", help="a name, or all")
    parser.add_argument(
        "--seeds", type=int, choices=range(1, 6), help="shuffles of the groups (P1, P2; default 5, the paper's models 1)"
    )
    gpus_option(parser)


def study(asked: argparse.Namespace) -> dict[str, Any] | list[dict[str, Any]]:
    """Fit and predict by each recipe."""
    from epochcast.regressor import LatencyPredictor
    from lab.evaluate.latency import BASELINES, Evaluation, evaluate, evaluate_model, evaluate_split
    from lab.rivals.latency import RECIPES

    check_rows(asked, "protocol", "seeds")
    if asked.families and asked.protocol != "P3":
        raise InputError("--families applies only to --protocol P3; give both")
    catalog = load_catalog(asked.gpus)

    def read(paths: Sequence[Path]) -> list[Profile]:
        profiles, left_out = load_profiles(paths, catalog)
        for sentence in left_out:
            note(f"{', '.join(map(str, paths))}: {sentence}")
        return profiles

    if asked.shipped:
        if asked.recipe != "default":
            raise InputError(f"--shipped has the recipe default, not {asked.recipe}; leave out --recipe")
        shipped = LatencyPredictor.load(catalog=catalog)
        return compared("default", {"default": evaluate_model(shipped, read(asked.test), stated=asked.stated).to_json()})
    known = read(asked.train or asked.data)
    tested = read(asked.test) if asked.test else None

    def measure(name: str) -> dict[str, Any]:
        evaluation: Evaluation
        if tested is not None:
            evaluation = evaluate_split(known, tested, catalog, recipe=name, stated=asked.stated)
        else:
            evaluation = evaluate(
                known,
                catalog,
                protocol=asked.protocol or "P2",
                recipe=name,
                seeds=None if asked.seeds is None else range(asked.seeds),
                families=asked.families,
                stated=asked.stated,
                progress=lambda done, fits: progress.show(f"{name}: fit {done + 1} of {fits}"),
            )
        return evaluation.to_json()

    return compared(asked.recipe, each_recipe(asked.recipe, list(RECIPES), BASELINES, measure))
