"""The figures of ``epochcast evaluate detector`` as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....detector.evaluation import TraceScore
from ..tables import figure, table

_NAMED = 3
"""Skipped traces that are named."""

_COUNTS = ("n", "answered", "as steps", "within 5 %", "MAPE %", "median %", "confident, wrong", "at 0.8")
_FIT = ("RMSE s", "R2", "F1", "F1 lagged", "edge, samples", "epochs right", "ends right")
_OTHERS = ("false alarms", "steps right", "both jobs")
_MACRO = ("cells", "coverage", "within 5 %", "MAPE %", "median %", "confident, wrong")


def labels_report(answer: Mapping[str, Any], rows: Sequence[TraceScore]) -> str:
    """Every trace, every class beside the trivial answer, and what the confidence is worth."""
    classes = {**answer["by"]["class"], "all": answer}
    header = ("class", *_COUNTS, *_FIT, "length/10", "MAPE %", *_OTHERS)
    lines = [(name, *_counts(line), *_fit(line), *_trivial(line), *_others(line)) for name, line in classes.items()]
    parts = [_traces(rows), table(header, lines), _confidence(answer), _cost(answer)]
    parts[2:2] = [_by_origin(answer)]
    return "\n\n".join([*parts, *_refusals({str(answer["recipe"]): rows})])


def regimes_report(regimes: Mapping[str, Any]) -> str:
    """Every trace whose period changes, what was found in it, and how many got one period for the whole."""
    lines = [
        (
            name,
            ", ".join(figure(regime["period_s"]) for regime in row["regimes"]) or "-",
            ", ".join(figure(stretch["period_s"]) for stretch in row["stretches"]) or "-",
            row["verdict"],
            figure(row["confidence"]),
        )
        for name, row in regimes["by"].items()
    ]
    return "\n\n".join(
        [
            table(("period changes", "true periods s", "stretches s", "verdict", "confidence"), lines),
            f"one period for the whole at confidence 0.6 or more: {regimes['one_period_sure']} of {regimes['n']}; "
            f"every true period found: {regimes['stretches_right']} of {regimes['n_regimes']}",
            *([skipped(regimes["unusable"])] if regimes["unusable"] else []),
        ]
    )


def skipped(unusable: Sequence[Mapping[str, str]]) -> str:
    """How many traces cannot be used, and why not, of the first ones."""
    first = "; ".join(f"{trace['name']}: {trace['why']}" for trace in unusable[:_NAMED])
    return f"skipped {len(unusable)} trace{'s' if len(unusable) > 1 else ''} that cannot be used: {first}"


def mlperf_report(answer: Mapping[str, Any], rows: Sequence[TraceScore]) -> str:
    """Every cell beside the trivial answer, the averages over cells, and the runs that must get no answer."""
    header = ("cell", *_COUNTS, "length/10", "MAPE %")
    lines = [(name, *_counts(line), *_trivial(line)) for name, line in answer["by"]["cell"].items()]
    averages = {**{name: line["macro"] for name, line in answer["by"]["benchmark"].items()}, "all": answer["macro"]}
    means = [(name, *_macro(line), _percent(line["baseline_within_5"])) for name, line in averages.items()]
    rest = answer["rest"]
    parts = [
        table(header, lines),
        table(("mean of cells", *_MACRO, "length/10"), means),
        f"must get no answer, as a period has less than three samples: {rest['n']} runs, of which {rest['answered']} got one "
        f"({rest['steps']} as steps, {rest['confident_wrong']} confident and wrong)",
        _confidence(answer),
        _cost(answer),
    ]
    return "\n\n".join([*parts, *_refusals({str(answer["recipe"]): rows})])


def compared(answers: Sequence[Mapping[str, Any]], scores: Mapping[str, Sequence[TraceScore]]) -> str:
    """One line per method, and one of the trivial answer."""
    first = answers[0]
    header: tuple[str, ...]
    if "macro" in first:
        header = ("recipe", *_MACRO, "rest answered", "CPU ms")
        lines = [
            (answer["recipe"], *_macro(answer["macro"]), _of(answer["rest"], "answered", "n"), _cpu(answer))
            for answer in answers
        ]
        trivial = ["length / 10", str(first["macro"]["cells"]), "", *_trivial(first["macro"])]
    else:
        header = ("recipe", *_COUNTS, *_FIT, *_OTHERS, "CPU ms")
        lines = [(answer["recipe"], *_counts(answer), *_fit(answer), *_others(answer), _cpu(answer)) for answer in answers]
        n, rmse, r2 = str(first["n"]), figure(first["baseline_rmse"]), figure(first["baseline_r2"])
        trivial = ["length / 10", n, n, "", *_trivial(first), figure(first["baseline_median_ape"]), "", "", rmse, r2]
    trivial += [""] * (len(header) - len(trivial))
    return "\n\n".join([table(header, [*lines, trivial]), *_refusals(scores)])


def _by_origin(answer: Mapping[str, Any]) -> str:
    """Real and simulated traces apart, by the interval between samples, by samples per epoch and by repository."""
    header = ("by", *_COUNTS, *_FIT)
    lines = [
        (f"{kind.replace('_', ' ')}: {name}", *_counts(line), *_fit(line))
        for kind in ("origin", "interval", "samples_per_epoch", "repository")
        for name, line in answer["by"][kind].items()
    ]
    mean = answer["within_5_by_repository"]
    tail = "" if mean is None else f"\n\nwithin 5 %, mean over repositories: {_percent(mean)}"
    apart = [
        (
            name,
            f"{bin_['low']:.1f} to {bin_['high']:.1f}",
            str(bin_["n"]),
            _percent(bin_["confidence"]),
            _percent(bin_["right"]),
        )
        for name, line in answer["by"]["origin"].items()
        for bin_ in line["reliability"]["bins"]
    ]
    return f"{table(header, lines)}{tail}\n\n{table(('origin', 'confidence', 'answers', 'stated', 'right'), apart)}"


def _traces(rows: Sequence[TraceScore]) -> str:
    header = ("trace", "verdict", "clock", "true s", "found s", "error %", "length/10 %", "F1", "edge, samples", "confidence")
    lines = []
    for row in rows:
        errors = (row.error, row.baseline_error, row.boundary_f1, row.boundary_error_samples, row.confidence)
        lines.append((row.name, row.verdict, row.clock, *map(figure, (row.true_period, row.found_period, *errors))))
    return table(header, lines)


def _counts(line: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        *(str(line[key]) for key in ("n", "answered", "steps")),
        _percent(line["within_5"]),
        *(figure(line[key]) for key in ("mape", "median_ape")),
        str(line["confident_wrong"]),
        str(line["confident_wrong_8"]),
    )


def _fit(line: Mapping[str, Any]) -> tuple[str, ...]:
    figures = (figure(line[key]) for key in ("rmse", "r2", "boundary_f1", "boundary_f1_lagged", "boundary_error_samples"))
    return (*figures, _percent(line["epochs_right"]), _percent(line["ends_right"]))


def _trivial(line: Mapping[str, Any]) -> tuple[str, str]:
    return _percent(line["baseline_within_5"]), figure(line["baseline_mape"])


def _others(line: Mapping[str, Any]) -> tuple[str, str, str]:
    return (
        _of(line, "false_alarms", "n_other"),
        _of(line, "steps_right", "n_step_loops"),
        _of(line, "both_jobs_found", "n_two_jobs"),
    )


def _macro(line: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        str(line["cells"]),
        _percent(line["coverage"]),
        _percent(line["within_5"]),
        *(figure(line[key]) for key in ("mape", "median_ape")),
        _percent(line["confident_wrong_share"]),
    )


def _confidence(answer: Mapping[str, Any]) -> str:
    thresholds = [
        (
            f"{line['threshold']:.1f}",
            str(line["answers"]),
            _percent(line["coverage"]),
            _percent(line["precision"]),
            str(line["false_alarms"]),
        )
        for line in answer["confidence"]["thresholds"]
    ]
    reliability = answer["confidence"]["reliability"]
    bins = [
        (f"{entry['low']:.1f} to {entry['high']:.1f}", str(entry["n"]), _percent(entry["confidence"]), _percent(entry["right"]))
        for entry in reliability["bins"]
    ]
    return "\n\n".join(
        [
            table(("confidence from", "answers", "coverage", "within 5 %", "false alarms"), thresholds),
            table(("confidence", "answers", "stated", "right"), bins),
            f"expected calibration error {figure(reliability['ece'])} over {reliability['n']} answers",
        ]
    )


def _cost(answer: Mapping[str, Any]) -> str:
    return f"CPU: {_cpu(answer)} ms per trace (median), {figure(answer['cpu_s_per_hour'])} s per hour of telemetry"


def _refusals(scores: Mapping[str, Sequence[TraceScore]]) -> list[str]:
    lines = []
    for name, rows in scores.items():
        refused = [row for row in rows if row.reason is not None]
        if refused:
            lines.append(f"{name} refused {len(refused)} of {len(rows)} traces, {refused[0].name} with: {refused[0].reason}")
    return ["\n".join(lines)] if lines else []


def _cpu(answer: Mapping[str, Any]) -> str:
    return "-" if answer["cpu_s"] is None else f"{1000 * answer['cpu_s']:.3g}"


def _of(line: Mapping[str, Any], part: str, whole: str) -> str:
    return f"{line[part]}/{line[whole]}" if line[whole] else "-"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g} %"
