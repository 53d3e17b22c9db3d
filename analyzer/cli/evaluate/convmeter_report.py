"""The figures of ``epochcast evaluate convmeter`` as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..tables import figure, table

_HEADER = ("recipe", "MAPE %", "median %", "RMSE s", "NRMSE", "R2", "n", "answered", "sd of folds")
_KEYS = ("mape", "median_ape", "rmse", "nrmse", "r2", "n")

_MOST_LINES = {"batch": 12, "image_size": 12, "devices": 12} | dict.fromkeys(("family", "network", "block"), 45)
"""Longer tables are left to --json."""

_WORST_FIRST = ("family", "network", "block")


def report(answer: Mapping[str, Any]) -> str:
    """The recipe beside the others on the same rows, and its figures by what the rows differ in."""
    parts = [compared([answer, *answer["baselines"].values()])]
    if answer["unanswered"]:
        parts.append(f"without an answer: {answer['unanswered']}")
    parts += [
        _by(key, groups)
        for key, groups in answer["by"].items()
        if (1 if key == "block" else 2) <= len(groups) <= _MOST_LINES.get(key, len(groups))
    ]
    return "\n\n".join(parts)


def compared(answers: Sequence[Mapping[str, Any]]) -> str:
    """What was asked, and one line per recipe; the last column is the standard deviation of the folds' MAPE."""
    rows = [
        (
            answer["recipe"],
            *(_cell(answer[key]) for key in _KEYS),
            f"{100 * answer['coverage']:.0f} %",
            _cell(answer["spread"]),
        )
        for answer in answers
    ]
    return f"{_asked(answers[0])}\n\n{table(_HEADER, rows)}"


def _asked(answer: Mapping[str, Any]) -> str:
    settings, protocol = answer["settings"], answer["protocol"]
    left_out = "; ".join(f"{count} rows left out: {reason}" for reason, count in settings["left_out"].items())
    size = f"{answer['n']} rows of {settings['networks']} networks in {settings['families']} families"
    told = {
        None: f"fitted on {settings.get('train_rows')} rows, tested on {size}",
        "family": f"family: {size}, each family predicted by a fit on all others",
        "architecture": f"architecture: {size}, each twelfth of the architectures predicted by a fit on the others",
        "model": f"model: {size}, each network predicted by a fit on all others",
    }[protocol]
    return f"{told}; {answer['phase']} time" + (f" ({left_out})" if left_out else "")


def _by(key: str, groups: Mapping[str, Mapping[str, Any]]) -> str:
    named = list(groups.items())
    if key in _WORST_FIRST:
        named.sort(key=lambda one: one[1]["mape"] if one[1]["n"] else 0, reverse=True)
    rows = [(name, *(_cell(scores[one]) for one in _KEYS)) for name, scores in named]
    return table((key.replace("_", " "), *_HEADER[1:7]), rows)


def _cell(value: float) -> str:
    return figure(None if math.isnan(value) else value)
