"""The figures of ``epochcast evaluate regressor`` as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..tables import figure, table

_BY = {"source_gpu": "from GPU", "target_gpu": "to GPU", "source": "source", "precision": "precision"}
_HEADER = (
    "recipe",
    "MAPE %",
    "median %",
    "P90 %",
    "RMSE s",
    "R2",
    "n",
    "answered",
    "wrong order",
    "fastest GPU right",
    "regret %",
)


def report(answer: Mapping[str, Any]) -> str:
    """The recipe beside the baselines, its interval, and its figures per source and target GPU."""
    parts = [_asked(answer), compared([answer, *answer["baselines"].values()]), _order_and_bias(answer)]
    if answer["n"]:
        parts += [_interval(answer), *(_by(title, answer["by"][key]) for key, title in _BY.items() if answer["by"][key])]
    return "\n\n".join(part for part in parts if part)


def compared(answers: Sequence[Mapping[str, Any]]) -> str:
    """One line per recipe, and what the last column means."""
    keys = ("mape", "median_ape", "p90_ape", "rmse", "r2", "n")
    rows = [
        (
            answer["recipe"],
            *(figure(answer[key]) for key in keys),
            _percent(answer["coverage"]),
            "-" if answer["wrong_order"] is None else f"{answer['wrong_order']:.1f} %",
            _percent(answer["fastest_right"]),
            figure(answer["fastest_regret"]),
        )
        for answer in answers
    ]
    return (
        f"{table(_HEADER, rows)}\nwrong order: of pairs more than 10 % apart; regret: how much longer a job takes on the GPU "
        "predicted to be fastest than on the fastest"
    )


def _order_and_bias(answer: Mapping[str, Any]) -> str:
    if not answer["n"]:
        return ""
    by_group = answer["mape_by_group"]
    mean = "" if by_group is None else f"mean over groups: MAPE {figure(by_group)} %; "
    return f"{mean}median log error {answer['bias']:+.3f}"


def _asked(answer: Mapping[str, Any]) -> str:
    """What was trained on, what was tested, and what was passed over."""
    settings = answer["settings"]
    alone = settings["workloads_on_one_gpu"]
    skipped = f"; {alone} workloads ran on one GPU only and make no pair" if alone else ""
    if answer["protocol"] is None:
        if into := settings["only_into"]:
            return (
                f"trained on {settings['train_profiles']} profiles, tested on {settings['pairs']} pairs into GPUs that "
                f"training has not seen ({', '.join(into)}){skipped}"
            )
        both = settings["workloads_in_both"]
        shared = f"; {both} workloads stand in both, so this is no test of new ones" if both else ""
        return (
            f"trained on {settings['train_profiles']} profiles, tested on {settings['pairs']} pairs among "
            f"{settings['test_profiles']} others{skipped}{shared}"
        )
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
    asked = f"{answer['protocol']}{anchors}: {settings['pairs']} pairs among {settings['profiles']} profiles"
    return asked + spread + drawn_text + skipped


def _interval(answer: Mapping[str, Any]) -> str:
    if answer["inside"] is None:
        return ""
    constant = answer["constant_width_score"]
    beside = "" if constant is None else f" (one width for all: {figure(constant)}; smaller is better)"
    return (
        f"90 % interval: {_percent(answer['inside'])} inside, median half-width "
        f"{figure(answer['interval_half_width'])} %, interval score {figure(answer['interval_score'])}{beside}"
    )


def _by(end: str, by: Mapping[str, Mapping[str, float | None]]) -> str:
    lines = [
        (
            gpu,
            *(figure(figures[key]) for key in ("mape", "median_ape", "n")),
            _percent(figures["inside"]),
            figure(figures["interval_half_width"]),
        )
        for gpu, figures in by.items()
    ]
    return table((end, "MAPE %", "median %", "n", "in 90 % interval", "half-width %"), lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
