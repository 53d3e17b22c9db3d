"""The figures of ``python -m lab.evaluate detector`` as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from lab.evaluate.common.report import Line, figure, lines, number, of, paragraphs, percent
from lab.evaluate.detection import TraceScore

_NAMED = 3
"""Skipped traces that are named."""

_COUNTS = {
    "n": number("n"),
    "answered": number("answered"),
    "as steps": number("steps"),
    "within 5 %": percent("within_5"),
    "MAPE %": number("mape"),
    "median %": number("median_ape"),
    "confident, wrong": number("confident_wrong"),
    "at 0.8": number("confident_wrong_8"),
}
_FIT = {
    "RMSE s": number("rmse"),
    "R2": number("r2"),
    "F1": number("boundary_f1"),
    "F1 lagged": number("boundary_f1_lagged"),
    "edge, samples": number("boundary_error_samples"),
    "epochs right": percent("epochs_right"),
    "ends right": percent("ends_right"),
}
_TRIVIAL = {"length/10": percent("baseline_within_5"), "its MAPE %": number("baseline_mape")}
_OTHERS = {
    "false alarms": of("false_alarms", "n_other"),
    "steps right": of("steps_right", "n_step_loops"),
    "both jobs": of("both_jobs_found", "n_two_jobs"),
}
_MACRO = {
    "cells": number("cells"),
    "coverage": percent("coverage"),
    "within 5 %": percent("within_5"),
    "MAPE %": number("mape"),
    "median %": number("median_ape"),
    "confident, wrong": percent("confident_wrong_share"),
}


def labels_text(answer: Line, rows: Sequence[TraceScore]) -> str:
    """Every trace, every class next to the trivial answer, and what the confidence is worth."""
    classes = {**answer["by"]["class"], "all": answer}
    return paragraphs(
        _each_trace(rows),
        lines("class", {**_COUNTS, **_FIT, **_TRIVIAL, **_OTHERS}, classes.items()),
        _by_origin(answer),
        *_confidence_and_cost(answer),
        _refusals({str(answer["recipe"]): rows}),
    )


def mlperf_text(answer: Line, rows: Sequence[TraceScore]) -> str:
    """Every cell next to the trivial answer, the averages over cells, and the runs that must get no answer."""
    averages = {**{name: line["macro"] for name, line in answer["by"]["benchmark"].items()}, "all": answer["macro"]}
    rest = answer["rest"]
    return paragraphs(
        lines("cell", {**_COUNTS, **_TRIVIAL}, answer["by"]["cell"].items()),
        lines("mean of cells", {**_MACRO, "length/10": percent("baseline_within_5")}, averages.items()),
        f"must get no answer (fewer than three samples in a period): {rest['n']} runs, of which {rest['answered']} got one "
        f"({rest['steps']} as steps, {rest['confident_wrong']} confident and wrong)",
        *_confidence_and_cost(answer),
        _refusals({str(answer["recipe"]): rows}),
    )


def compared(answers: Sequence[Line], scores: Mapping[str, Sequence[TraceScore]]) -> str:
    """One line per method, and one of the trivial answer, length / 10."""
    by_cell = "macro" in answers[0]
    rows = [(str(answer["recipe"]), {**answer, **answer.get("macro", {})}) for answer in answers]
    first = rows[0][1]
    trivial = {key: first[f"baseline_{key}"] for key in ("within_5", "mape")}
    if by_cell:
        trivial |= {"cells": first["cells"]}
        columns = {**_MACRO, "rest answered": lambda line: of("answered", "n")(line.get("rest", {}))}
    else:
        trivial |= {"n": first["n"], "answered": first["n"]}
        trivial |= {key: first[f"baseline_{key}"] for key in ("median_ape", "rmse", "r2")}
        columns = {**_COUNTS, **_FIT, **_OTHERS}
    table_of_methods = lines("recipe", {**columns, "CPU ms": _cpu}, [*rows, ("length / 10", trivial)])
    return paragraphs(table_of_methods, _refusals(scores))


def regimes_text(regimes: Line) -> str:
    """Every trace whose period changes, what was found in it, and how many got one period for the whole."""
    columns = {
        "true periods s": lambda row: ", ".join(figure(regime["period_s"]) for regime in row["regimes"]) or "-",
        "stretches s": lambda row: ", ".join(figure(stretch["period_s"]) for stretch in row["stretches"]) or "-",
        "verdict": lambda row: str(row["verdict"]),
        "confidence": number("confidence"),
    }
    return paragraphs(
        lines("period changes", columns, regimes["by"].items()),
        f"one period for the whole at confidence 0.6 or more: {regimes['one_period_sure']} of {regimes['n']}; "
        f"every true period found: {regimes['stretches_right']} of {regimes['n_regimes']}",
        skipped(regimes["unusable"]) if regimes["unusable"] else "",
    )


def skipped(unusable: Sequence[Mapping[str, str]]) -> str:
    """How many traces cannot be used, and why not, of the first ones."""
    first = "; ".join(f"{trace['name']}: {trace['why']}" for trace in unusable[:_NAMED])
    return f"skipped {len(unusable)} trace{'s' if len(unusable) > 1 else ''} that cannot be used: {first}"


def _by_origin(answer: Line) -> str:
    """Real and simulated traces apart, by the interval between samples, by samples per epoch and by repository."""
    rows = [
        (f"{kind.replace('_', ' ')}: {name}", line)
        for kind in ("origin", "interval", "samples_per_epoch", "repository")
        for name, line in answer["by"][kind].items()
    ]
    mean = answer["within_5_by_repository"]
    return paragraphs(
        lines("by", {**_COUNTS, **_FIT}, rows),
        "" if mean is None else f"within 5 %, mean over repositories: {percent('within_5_by_repository')(answer)}",
        _bins({f"{name}, ": line["reliability"] for name, line in answer["by"]["origin"].items()}),
    )


def _each_trace(rows: Sequence[TraceScore]) -> str:
    columns = {
        "verdict": lambda line: str(line["verdict"]),
        "clock": lambda line: str(line["clock"]),
        "true s": number("true_period"),
        "found s": number("found_period"),
        "error %": number("error"),
        "length/10 %": number("baseline_error"),
        "F1": number("boundary_f1"),
        "edge, samples": number("boundary_error_samples"),
        "confidence": number("confidence"),
    }
    return lines("trace", columns, [(row.name, asdict(row)) for row in rows])


def _confidence_and_cost(answer: Line) -> list[str]:
    columns = {
        "answers": number("answers"),
        "coverage": percent("coverage"),
        "within 5 %": percent("precision"),
        "false alarms": number("false_alarms"),
    }
    thresholds = [(f"{line['threshold']:.1f}", line) for line in answer["confidence"]["thresholds"]]
    calibration = answer["confidence"]["reliability"]
    return [
        lines("confidence from", columns, thresholds),
        _bins({"": calibration}),
        f"expected calibration error {figure(calibration['ece'])} over {calibration['n']} answers",
        f"CPU: {_cpu(answer)} ms per trace (median), {figure(answer['cpu_s_per_hour'])} s per hour of telemetry",
    ]


def _bins(calibrations: Mapping[str, Line]) -> str:
    """The share of right answers next to the stated confidence, in bins; of each group under what its lines begin with."""
    columns = {"answers": number("n"), "stated": percent("confidence"), "right": percent("right")}
    bins = [(begin, line) for begin, calibration in calibrations.items() for line in calibration["bins"]]
    return lines("confidence", columns, [(f"{begin}{line['low']:.1f} to {line['high']:.1f}", line) for begin, line in bins])


def _refusals(scores: Mapping[str, Sequence[TraceScore]]) -> str:
    said = []
    for name, rows in scores.items():
        refused = [row for row in rows if row.reason is not None]
        if refused:
            said.append(f"{name} refused {len(refused)} of {len(rows)} traces, {refused[0].name} with: {refused[0].reason}")
    return "\n".join(said)


def _cpu(answer: Line) -> str:
    return "-" if answer.get("cpu_s") is None else f"{1000 * answer['cpu_s']:.3g}"
