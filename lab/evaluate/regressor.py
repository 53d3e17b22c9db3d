"""Compare predicted latency on other GPUs with measurements and simple rules.

python -m lab.evaluate regressor --data cloud_hw_trainpred.csv --protocol P4-anchors --anchors 5
python -m lab.evaluate regressor --train rates.csv.gz --test rates_2.csv.gz

A workload that is in both is answered by a fit without it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lab.corpora  # noqa: F401 (makes them known)
from epochcast.analyzer.cli import progress
from epochcast.analyzer.corpus.training_data import load_training_data
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.commands import gpus_option, note
from lab.evaluate.common.comparison import check_rows, compared, each_recipe, rows_options
from lab.evaluate.latency.stated import STATED

if TYPE_CHECKING:
    from epochcast.regressor import Profile

_ANCHORS = 10


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
        help="P2 new workload (default), P1 random rows (leaks), P3 new architecture, P4 new GPU, P4-anchors; for rates of "
        "equal work new-workload and new-gpu",
    )
    parser.add_argument("--families", action="store_true", help="leave out equal networks of all sources (new-workload)")
    parser.add_argument(
        "--stated", choices=STATED, default="family", help="what a tested job says of itself (default: its type and its family)"
    )
    parser.add_argument("--anchors", type=int, help=f"workloads measured on the new GPU (P4-anchors; default {_ANCHORS})")
    parser.add_argument("--recipe", help="default: default, latency-only for timed steps without telemetry; all compares")
    parser.add_argument(
        "--seeds", type=int, choices=range(1, 6), help="shuffles of the groups (P1, P2; default 5, the paper's models 1)"
    )
    gpus_option(parser)


def study(asked: argparse.Namespace) -> dict[str, Any] | list[dict[str, Any]]:
    """Fit and predict by each recipe."""
    from epochcast.regressor import LatencyPredictor
    from lab.evaluate.latency import BASELINES, Evaluation, evaluate, evaluate_model, evaluate_split
    from lab.rivals.latency import RECIPES

    check_rows(asked, "protocol", "anchors", "seeds")
    if asked.families and asked.protocol != "new-workload":
        raise InputError("--families applies only to --protocol new-workload; give both")
    if asked.anchors is not None and asked.protocol != "P4-anchors":
        raise InputError(f"--anchors {asked.anchors} applies only to --protocol P4-anchors; give both")
    catalog = load_catalog(asked.gpus)

    def read(paths: Sequence[Path]) -> list[Profile]:
        profiles, left_out = load_training_data(paths, catalog)
        for sentence in left_out:
            note(f"{', '.join(map(str, paths))}: {sentence}")
        return profiles

    if asked.shipped:
        if asked.recipe not in (None, "default"):
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
                anchors=_ANCHORS if asked.anchors is None else asked.anchors,
                families=asked.families,
                stated=asked.stated,
                progress=lambda done, fits: progress.show(f"{name}: fit {done + 1} of {fits}"),
            )
        return evaluation.to_json()

    subject = asked.recipe or _recipe_for(known)
    return compared(subject, each_recipe(subject, list(RECIPES), BASELINES, measure))


def _recipe_for(profiles: Sequence[Profile]) -> str:
    """What answers for data like these: PROFET's have epochs with their steps, and no telemetry; rates have only steps."""
    from epochcast.regressor.telemetry import has_telemetry

    timed = any(profile.step_s and profile.unit == "epoch" for profile in profiles)
    return "latency-only" if timed and not any(map(has_telemetry, profiles)) else "default"
