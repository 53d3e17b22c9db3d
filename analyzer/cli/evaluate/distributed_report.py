"""The figures of ``epochcast evaluate distributed`` as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import Any

from ..tables import figure, table

_HEADER = ("recipe", "MAPE %", "median %", "RMSE s", "R2", "n", "answered", "regret %")


def report(answer: Mapping[str, Any]) -> str:
    """The recipe beside the others on the same rows, and its figures by model size and kind of parallelism."""
    parts = [_asked(answer), compared([answer, *answer["baselines"].values()])]
    parts += [_by(key, groups, answer["regret"]) for key, groups in answer["by"].items()]
    return "\n\n".join(parts)


def compared(answers: Sequence[Mapping[str, Any]]) -> str:
    """One line per recipe; the regret is that of the size where it is worst."""
    rows = [
        (
            answer["recipe"],
            *(figure(answer[key]) for key in ("mape", "median_ape", "rmse", "r2", "n")),
            f"{100 * answer['coverage']:.0f} %",
            "-" if not answer["regret"] else f"{max(answer['regret'].values()):.1f}",
        )
        for answer in answers
    ]
    regret = "regret: how much longer the configuration predicted to be fastest takes than the fastest, where it is worst"
    return "\n".join([table(_HEADER, rows), *([regret] if any(answer["regret"] for answer in answers) else [])])


def _asked(answer: Mapping[str, Any]) -> str:
    settings, spread = answer["settings"], answer["spread"]
    if "train_runs" in settings:
        return f"fitted on {settings['train_runs']} runs, tested on {settings['runs']} others"
    if answer["protocol"] == "size":
        return f"size: {settings['runs']} runs, each model size predicted by a fit on all others"
    if not spread:
        return f"rows: {settings['runs']} runs, none to learn from"
    return (
        f"rows: {settings['rows']} of {settings['runs']} runs to learn from, tested on the others; {len(spread)} draws, MAPE "
        f"{figure(min(spread))} to {figure(max(spread))}, standard deviation {figure(stdev(spread))}"
    )


def _by(key: str, groups: Mapping[str, Mapping[str, Any]], regret: Mapping[str, float] | None) -> str:
    with_regret = key == "size" and bool(regret)
    rows = [
        (
            name,
            *(figure(scores[one]) for one in ("mape", "median_ape", "n")),
            *([f"{regret[name]:.1f}"] if with_regret and regret else []),
        )
        for name, scores in groups.items()
    ]
    return table((key, "MAPE %", "median %", "n", *(["regret %"] if with_regret else [])), rows)


_METHODS = {"zero": "GPU left out", "probe": "with a probe", "roofline": "roofline", "neusight": "NeuSight"}


def by_gpu_report(answer: Mapping[str, Any]) -> str:
    """Errors of whole models by GPU and mode, all methods on the same rows, and of single operators."""
    methods = [name for name in _METHODS if name in answer["methods"]]
    rows = [
        (name, str(by["zero"]["n"]), *(_error(by[method]) for method in methods))
        for name, by in (*answer["by"].items(), ("all", answer["methods"]))
    ]
    parts = [
        "models end to end, MAPE % (standard deviation over the probes drawn); NeuSight was trained on these GPUs, ours "
        "leave each one out",
        table(("GPU", "n", *(_METHODS[name] for name in methods)), rows),
        f"left out: {', '.join(f'{count} rows ({reason})' for reason, count in answer['left_out'].items()) or 'nothing'}",
    ]
    if answer["operators"]:
        header = ("GPU", "operators", "n", "MAPE %", "median %", *(["with a probe"] if answer["probe"] else []))
        lines = [
            (
                row["gpu"],
                row["family"],
                str(row["n"]),
                figure(row["zero_mape"]),
                figure(row["zero_median"]),
                *([f"{row['probe_mape']:.4g} ({row['probe_sd']:.2g})"] if answer["probe"] else []),
            )
            for row in answer["operators"]
        ]
        parts.append(table(header, lines))
    return "\n\n".join(parts)


def _error(figures: Mapping[str, Any]) -> str:
    if not figures["n"]:
        return "-"
    return f"{figures['mape']:.4g}" + (f" ({figures['sd']:.2g})" if "sd" in figures else "")
