"""The figures of ``epochcast evaluate occupancy`` as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..occupancy_text import TARGETS, labels_text
from ..tables import figure, table

_HEADER = ("recipe", "MRE %", "median %", "MSE", "R2", "n", "answered", "sd of tests")
_KEYS = ("mre", "median_ape", "mse", "r2", "n")

_MOST_LINES = {"batch": 12} | dict.fromkeys(("network", "test"), 45)
"""Longer tables are left to --json."""

_WORST_FIRST = ("network", "family")

_PROTOCOLS = {
    "model": "each network predicted by a fit on all others",
    "paper": "section V of the paper: fitted on 80 % of the rows of its seen networks; seen are the rest of their rows, unseen "
    "networks that were not fitted on",
    "transformers": "Table V of the paper: fitted on ViT-T alone",
    "clip": "Table IV of the paper: two CLIP networks seen beside those of section V, a third unseen",
    "learning-curve": "networks predicted by fits on parts of the others",
}


def report(answer: Mapping[str, Any]) -> str:
    """The recipe beside the others on the same rows, and its figures by what the rows differ in."""
    parts = [compared([answer, *answer["baselines"].values()])]
    if answer["unanswered"]:
        parts.append(f"without an answer: {answer['unanswered']}")
    by = answer["by"]
    if list(by["test"]) == list(by["network"]):
        by = {key: groups for key, groups in by.items() if key != "test"}
    parts += [_by(key, groups) for key, groups in by.items() if 2 <= len(groups) <= _MOST_LINES.get(key, len(groups))]
    return "\n\n".join(parts)


def compared(answers: Sequence[Mapping[str, Any]]) -> str:
    """Where the labels come from, what was asked, and one line per recipe; the last column is of the tests' MRE."""
    rows = [
        (
            answer["recipe"],
            *(_cell(answer[key]) for key in _KEYS),
            f"{100 * answer['coverage']:.0f} %",
            _cell(answer["spread"]),
        )
        for answer in answers
    ]
    first = answers[0]
    parts = [f"{labels_text(first['labels'])}\n{_asked(first)}", table(_HEADER, rows)]
    if first["protocol"] in ("paper", "transformers", "clip"):
        parts.append(_tests(answers))
    if "curve" in first:
        parts.append(_curves(answers))
    return "\n\n".join(parts)


def _asked(answer: Mapping[str, Any]) -> str:
    settings, protocol = answer["settings"], answer["protocol"]
    size = f"{settings['rows']} rows of {settings['networks']} networks on {', '.join(settings['gpus'])}"
    if protocol is None:
        trained = f"fitted on {settings['train_rows']} other rows"
        if answer["train_labels"] != answer["labels"]:
            trained += f" with labels {answer['train_labels']}"
        told = f"{size}, {trained}"
    else:
        groups = f", in {settings['folds']} groups" if settings["folds"] else ""
        told = f"{protocol}: {size}, {_PROTOCOLS[protocol]}{groups}"
    told += f"; {TARGETS[answer['target']]}"
    if settings["missing"]:
        told += f"\nof the protocol's networks these are not in the table: {', '.join(settings['missing'])}"
    if settings["left_out"]:
        told += "\nrows left out: " + ", ".join(f"{count} {reason}" for reason, count in settings["left_out"].items())
    return told


def _tests(answers: Sequence[Mapping[str, Any]]) -> str:
    """MRE and rows of each test, a column per recipe."""
    names = answers[0]["by"]["test"]
    rows = [
        (name, str(names[name]["n"]), *(_cell(answer["by"]["test"].get(name, {}).get("mre")) for answer in answers))
        for name in names
    ]
    return table(("MRE %", "n", *(answer["recipe"] for answer in answers)), rows)


def _curves(answers: Sequence[Mapping[str, Any]]) -> str:
    """MRE by what was fitted on, a column per recipe, with the spread of draws."""
    told = [{(point["by"], point["size"]): point for point in answer["curve"]} for answer in answers]
    sizes = list(dict.fromkeys(key for points in told for key in points))
    sizes.sort(key=lambda key: (key[0], key[1]))
    rows = [(f"{size} {by}", *(_point(points.get((by, size))) for points in told)) for by, size in sizes]
    return table(("MRE %, fitted on", *(answer["recipe"] for answer in answers)), rows)


def _point(point: Mapping[str, Any] | None) -> str:
    if point is None:
        return "-"
    return f"{point['mre']:.1f}" + (f" ± {point['spread']:.1f}" if point["draws"] > 1 else "")


def _by(key: str, groups: Mapping[str, Mapping[str, Any]]) -> str:
    named = list(groups.items())
    if key in _WORST_FIRST:
        named.sort(key=lambda one: one[1]["mre"] if one[1]["n"] else 0, reverse=True)
    rows = [(name, *(_cell(scores[one]) for one in _KEYS)) for name, scores in named]
    return table((key, *_HEADER[1:6]), rows)


def _cell(value: float | None) -> str:
    return figure(None if value is None or value != value else value)  # NaN is not itself
