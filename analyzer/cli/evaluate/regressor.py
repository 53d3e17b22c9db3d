"""``epochcast evaluate regressor``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...errors import InputError
from .. import progress, terminal
from .regressor_report import compared, report

if TYPE_CHECKING:
    from ....regressor import Profile

_FILE = click.Path(path_type=Path)


@click.command()
@click.option("--data", type=_FILE, multiple=True, metavar="PATH", help="Corpus that the protocol splits (repeatable).")
@click.option("--train", type=_FILE, multiple=True, metavar="PATH", help="Corpus to fit on, with --test (repeatable).")
@click.option(
    "--test",
    type=_FILE,
    multiple=True,
    metavar="PATH",
    help="Corpus whose pairs of GPUs to test on, with --train (repeatable).",
)
@click.option(
    "--protocol",
    metavar="NAME",
    help="P2 new workload, P1 random rows (leaks), P3 new architecture, P4 new GPU, P4-anchors; for rates of equal work "
    "new-workload and new-gpu. [default: P2]",
)
@click.option("--families", is_flag=True, help="Leave out equal networks of all sources together (protocol new-workload).")
@click.option(
    "--anchors",
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of workloads measured on the new GPU (protocol P4-anchors). [default: 10]",
)
@click.option(
    "--recipe",
    metavar="NAME",
    help="Recipe to fit, or `all` to compare them. [default: default; latency-only for timed steps without telemetry]",
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 5),
    metavar="N",
    help="Number of shuffles of the groups (P1, P2). [default: 5, the paper's models 1]",
)
@click.option("--gpus", type=_FILE, metavar="FILE", help="TOML file with GPUs of your own.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def regressor(
    data: tuple[Path, ...],
    train: tuple[Path, ...],
    test: tuple[Path, ...],
    protocol: str | None,
    families: bool,
    anchors: int | None,
    recipe: str | None,
    seeds: int | None,
    gpus: Path | None,
    as_json: bool,
) -> int:
    """Compare predicted with measured latency on other GPUs, next to simple rules.

    \b
    Example: epochcast evaluate regressor --data cloud_hw_trainpred.csv \\
                 --protocol P3
             epochcast evaluate regressor --data cloud_hw_trainpred.csv \\
                 --protocol P4-anchors --anchors 5
             epochcast evaluate regressor --data rates.csv.gz --protocol new-gpu
             epochcast evaluate regressor --train old.csv --test new.csv
    """
    from ....regressor import RECIPES, Evaluation, evaluate, evaluate_split, load_catalog
    from ....regressor import InputError as RegressorInputError
    from ....regressor.evaluation import BASELINES
    from ...corpus.training_data import load_training_data

    if bool(data) == bool(train) or bool(train) != bool(test):
        raise InputError("give either --data PATH or both --train PATH and --test PATH")
    if train and (protocol is not None or anchors is not None):
        raise InputError("--protocol and --anchors split one corpus; with --train and --test leave them out")
    if families and protocol != "new-workload":
        raise InputError("--families belongs to --protocol new-workload; give both")
    if anchors is not None and protocol != "P4-anchors":
        raise InputError(f"--anchors {anchors} belongs to --protocol P4-anchors; give both")
    catalog = load_catalog(gpus)
    corpora = []
    for paths in (data, train, test):
        if paths:
            profiles, left_out = load_training_data(paths, catalog)
            corpora.append(profiles)
            for sentence in left_out:
                terminal.note(f"{', '.join(str(path) for path in paths)}: {sentence}")

    def measure(name: str) -> Evaluation:
        profiles, *tested = corpora
        if tested:
            return evaluate_split(profiles, tested[0], catalog, recipe=name)
        return evaluate(
            profiles,
            catalog,
            protocol=protocol or "P2",
            recipe=name,
            seeds=None if seeds is None else range(seeds),
            anchors=10 if anchors is None else anchors,
            families=families,
            progress=lambda done, fits: progress.show(f"{name}: fit {done + 1} of {fits}"),
        )

    if recipe == "all":
        answers = []
        for name in RECIPES:
            try:
                answers.append(measure(name).to_json())
            except RegressorInputError as error:  # e.g. no telemetry for those that need it; the others go on
                progress.clear()
                terminal.say(f"{name}: {error}", err=True)
        progress.clear()
        terminal.say(json.dumps(answers, indent=2) if as_json else compared(answers), as_is=as_json)
        return 0 if any(answer["n"] for answer in answers) else 1
    if recipe is None:
        recipe = _recipe_for(corpora[0])
    answer = measure(recipe).to_json()
    answer["baselines"] = {name: measure(name).to_json() for name in BASELINES if name != recipe}
    progress.clear()
    terminal.say(json.dumps(answer, indent=2) if as_json else report(answer), as_is=as_json)
    return 0 if answer["n"] else 1  # a recipe may have no answer for a protocol


def _recipe_for(profiles: Sequence[Profile]) -> str:
    """What answers for data like these: PROFET's time steps beside epochs, and have no telemetry."""
    from ....regressor.telemetry_correction import has_telemetry

    timed = any(profile.step_s for profile in profiles)
    return "latency-only" if timed and not any(map(has_telemetry, profiles)) else "default"
