"""``epochcast evaluate regressor``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import InputError
from ...evaluation.report import Line, number, percent, report
from ...tables import figure
from .. import progress, terminal
from ..shared_options import gpus_option, json_option
from .command import ALL, check_rows, each_recipe, rows_options, say_figures

if TYPE_CHECKING:
    from ....regressor import Profile

_ANCHORS = 10

_BY = {"source_gpu": "from GPU", "target_gpu": "to GPU", "source": "source", "precision": "precision"}
_COLUMNS = {
    "MAPE %": number("mape"),
    "median %": number("median_ape"),
    "P90 %": number("p90_ape"),
    "RMSE s": number("rmse"),
    "R2": number("r2"),
    "n": number("n"),
    "answered": percent("coverage"),
    "wrong order %": number("wrong_order"),
    "fastest GPU right": percent("fastest_right"),
    "regret %": number("fastest_regret"),
}
_LEGEND = (
    "wrong order: of pairs more than 10 % apart; regret: how much longer a job takes on the GPU predicted to be fastest than "
    "on the fastest"
)
_GROUPS = {
    "MAPE %": number("mape"),
    "median %": number("median_ape"),
    "n": number("n"),
    "in 90 % interval": percent("inside"),
    "half-width %": number("interval_half_width"),
}


@click.command()
@rows_options("Corpora", "PATH")
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
    help=f"Number of workloads measured on the new GPU (protocol P4-anchors). [default: {_ANCHORS}]",
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
@gpus_option
@json_option
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
    from ....regressor import RECIPES, evaluate, evaluate_split, load_catalog
    from ....regressor.evaluation import BASELINES
    from ...corpus.training_data import load_training_data

    check_rows(data, train, test, protocol=protocol, anchors=anchors, seeds=seeds)
    if families and protocol != "new-workload":
        raise InputError("--families belongs to --protocol new-workload; give both")
    if anchors is not None and protocol != "P4-anchors":
        raise InputError(f"--anchors {anchors} belongs to --protocol P4-anchors; give both")
    catalog = load_catalog(gpus)

    def read(paths: Sequence[Path]) -> list[Profile]:
        profiles, left_out = load_training_data(paths, catalog)
        for sentence in left_out:
            terminal.note(f"{', '.join(str(path) for path in paths)}: {sentence}")
        return profiles

    known = read(train or data)
    tested = read(test) if test else None

    def measure(name: str) -> dict[str, Any]:
        if tested is not None:
            return evaluate_split(known, tested, catalog, recipe=name).to_json()
        return evaluate(
            known,
            catalog,
            protocol=protocol or "P2",
            recipe=name,
            seeds=None if seeds is None else range(seeds),
            anchors=_ANCHORS if anchors is None else anchors,
            families=families,
            progress=lambda done, fits: progress.show(f"{name}: fit {done + 1} of {fits}"),
        ).to_json()

    recipe = recipe or _recipe_for(known)
    figures = each_recipe(recipe, list(RECIPES), BASELINES, measure)
    say_figures(recipe, figures, as_json, _text)
    subjects = figures.values() if recipe == ALL else [figures[recipe]]
    return 0 if any(line["n"] for line in subjects) else 1  # a recipe may have no answer for a protocol


def _recipe_for(profiles: Sequence[Profile]) -> str:
    """What answers for data like these: PROFET's time steps beside epochs, and have no telemetry."""
    from ....regressor.telemetry_correction import has_telemetry

    timed = any(profile.step_s for profile in profiles)
    return "latency-only" if timed and not any(map(has_telemetry, profiles)) else "default"


def _text(answers: Sequence[Line], detailed: bool) -> str:
    first = answers[0]
    detailed = detailed and bool(first["n"])
    by = {title: first["by"][key] for key, title in _BY.items()} if detailed else {}
    beside = [_bias(first), _interval(first)] if detailed else []
    return report(
        _heading(first), {line["recipe"]: line for line in answers}, _COLUMNS, by, _GROUPS, legend=_LEGEND, beside=beside
    )


def _heading(answer: Line) -> str:
    """What was trained on, what was tested, and what was passed over."""
    settings = answer["settings"]
    alone = settings["workloads_on_one_gpu"]
    skipped = f"; {alone} workloads ran on one GPU only and make no pair" if alone else ""
    if answer["protocol"] is None:
        trained = f"trained on {settings['train_profiles']} profiles, tested on {settings['pairs']} pairs"
        if into := settings["only_into"]:
            return f"{trained} into GPUs that training has not seen ({', '.join(into)}){skipped}"
        both = settings["workloads_in_both"]
        shared = f"; {both} workloads stand in both, so this is no test of new ones" if both else ""
        return f"{trained} among {settings['test_profiles']} others{skipped}{shared}"
    low, high = (figure(value) for value in answer["spread"])
    shuffles = len(settings["seeds"])
    spread = f"; mean over {shuffles} shuffles, MAPE {low} to {high}" if shuffles > 1 else ""
    anchors = f" with {settings['anchors']} anchors on each new GPU" if "anchors" in settings else ""
    drawn = answer["random_anchors"]
    drawn_text = (
        f"; anchors drawn at random: MAPE {figure(sum(drawn) / len(drawn))} ({figure(min(drawn))} to {figure(max(drawn))}, "
        f"{len(drawn)} draws)"
        if drawn
        else ""
    )
    heading = f"{answer['protocol']}{anchors}: {settings['pairs']} pairs among {settings['profiles']} profiles"
    return heading + spread + drawn_text + skipped


def _bias(answer: Line) -> str:
    by_group = answer["mape_by_group"]
    mean = "" if by_group is None else f"mean over groups: MAPE {figure(by_group)} %; "
    return f"{mean}median log error {answer['bias']:+.3f}"


def _interval(answer: Line) -> str:
    if answer["inside"] is None:
        return ""
    constant = answer["constant_width_score"]
    beside = "" if constant is None else f" (one width for all: {figure(constant)}; smaller is better)"
    return (
        f"90 % interval: {percent('inside')(answer)} inside, median half-width "
        f"{figure(answer['interval_half_width'])} %, interval score {figure(answer['interval_score'])}{beside}"
    )
