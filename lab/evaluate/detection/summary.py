"""One line for many traces, the macro average of many lines, and what a confidence is worth.

That is precision and coverage by threshold, and how often answers of a confidence are right.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from epochcast.detector.confidence import ANSWERS, SURE
from epochcast.detector.epochs import ClockName
from epochcast.detector.errors import InputError
from lab.evaluate.detection.scores import TOLERANCE, TraceScore

#: A period of fewer samples than this cannot be distinguished from noise: such runs must get no answer. Decision 0011.
RESOLVED = 3

#: Thresholds of the confidence that are reported, and even bins of it. By choice.
THRESHOLDS, _BINS = (0.5, 0.6, 0.7, 0.8, 0.9), 10

Summary = dict[str, float | int | None]


def summarise(rows: Sequence[TraceScore]) -> Summary:
    """One line for many traces.

    Returns:
        None where nothing was there to count, else

        - of the training traces: their number `n`, `answered` ones, how many of those with verdict `steps`, and `coverage`
          = answered / n;
        - over the answered ones: `mape` and `median_ape` in percent; `rmse` of the period in seconds of the clock and `r2`,
          both None if the answers are on different clocks (seconds of work and of the wall do not add up), `r2` also if the
          true periods do not differ;
        - `within_5`, share of all n whose error is below 5 % (an abstention is a miss); `confident_wrong`, how many answers of
          confidence >= 0.6 are not, and `confident_wrong_8`, of confidence >= 0.8;
        - `within_5_by_repository`, the mean over repositories of their `within_5`, None if no labels name one;
        - `epochs_right` and `ends_right`, shares of all n with the true number of epochs, and with both ends within 5 % of a
          period;
        - `boundary_f1` and `boundary_f1_lagged`, means over all n; `boundary_error_s` and `boundary_error_samples`, medians
          over traces that have one;
        - `baseline_mape`, `baseline_median_ape`, `baseline_within_5`, `baseline_rmse` and `baseline_r2` of length / 10, over n;
        - `n_two_jobs` training traces with two jobs labelled, `both_jobs_found` among them;
        - `n_other` traces without training or steps, and `false_alarms`, how many of them got the verdict `epochs`;
          `n_step_loops` traces that are strictly even loops, of them `steps_right` with verdict `steps` and
          `steps_as_epochs` with verdict `epochs`;
        - `refused`, how many traces the method refused; `cpu_s`, median per trace, and `cpu_s_per_hour` of telemetry.

    Raises:
        InputError: no rows.
    """
    if not rows:
        raise InputError("no trace to summarise: give at least one trace with its labels")
    training = [row for row in rows if row.training]
    answered = [row for row in training if row.error is not None]
    two = [row for row in training if row.jobs > 1]
    loops = [row for row in rows if row.steps]
    other = [row for row in rows if not (row.training or row.steps)]
    timed = [(row.cpu_s, row.telemetry_s / 3600) for row in rows if row.cpu_s is not None]
    rmse, r2 = _fit([(row.found_period, row.true_period) for row in answered], {row.clock for row in answered})
    trivial_rmse, trivial_r2 = _fit(
        [(row.baseline_period, row.true_period) for row in training], {row.clock for row in training}
    )
    return {
        "n": len(training),
        "answered": len(answered),
        "steps": sum(row.verdict == "steps" for row in training),
        "coverage": _share(len(answered), len(training)),
        "mape": _mean(row.error for row in answered),
        "median_ape": _median(row.error for row in answered),
        "rmse": rmse,
        "r2": r2,
        "within_5": _share(sum(row.right for row in training), len(training)),
        "confident_wrong": sum(row.confidence >= ANSWERS and not row.right for row in answered),
        "confident_wrong_8": sum(row.confidence >= SURE and not row.right for row in answered),
        "within_5_by_repository": _mean(
            _mean(row.right for row in training if row.repo == repo) for repo in {row.repo for row in training if row.repo}
        ),
        "epochs_right": _share(sum(row.epochs_found == row.epochs_true for row in training), len(training)),
        "ends_right": _share(sum(row.ends_right is True for row in training), len(training)),
        "boundary_f1": _mean(row.boundary_f1 for row in training),
        "boundary_f1_lagged": _mean(row.boundary_f1_lagged for row in training),
        "boundary_error_s": _median(row.boundary_error_s for row in training),
        "boundary_error_samples": _median(row.boundary_error_samples for row in training),
        "baseline_mape": _mean(row.baseline_error for row in training),
        "baseline_median_ape": _median(row.baseline_error for row in training),
        "baseline_rmse": trivial_rmse,
        "baseline_r2": trivial_r2,
        "baseline_within_5": _share(sum((row.baseline_error or 0) < 100 * TOLERANCE for row in training), len(training)),
        "n_two_jobs": len(two),
        "both_jobs_found": sum(row.jobs_found == row.jobs for row in two),
        "n_other": len(other),
        "false_alarms": sum(row.false_alarm for row in other),
        "n_step_loops": len(loops),
        "steps_right": sum(row.verdict == "steps" for row in loops),
        "steps_as_epochs": sum(row.false_alarm for row in loops),
        "refused": sum(row.reason is not None for row in rows),
        "cpu_s": _median(spent for spent, _ in timed),
        "cpu_s_per_hour": _share(sum(spent for spent, _ in timed), sum(hours for _, hours in timed)),
    }


def resolved(row: TraceScore) -> bool:
    """Whether the true period is at least 3 samples long; what is shorter must get no answer."""
    return row.true_period is not None and row.true_period >= RESOLVED * row.sample_s


def macro_average(cells: Mapping[str, Sequence[TraceScore]]) -> Summary:
    """The mean over cells of each cell's own figures, so that a cell of many runs weighs no more than one of few.

    Returns:
        `cells`, their number; means of the cells' `coverage`, `within_5`, `baseline_mape` and `baseline_within_5`, and of
        `mape` and `median_ape` over the cells that have an answer; `confident_wrong_share`, the mean share of a cell's runs
        whose answer has confidence >= 0.6 and is wrong.

    Raises:
        InputError: a cell without rows.
    """
    lines = [summarise(rows) for rows in cells.values()]
    return {
        "cells": len(lines),
        **{
            key: _mean(line[key] for line in lines)
            for key in ("coverage", "mape", "median_ape", "within_5", "baseline_mape", "baseline_within_5")
        },
        "confident_wrong_share": _mean(_share(line["confident_wrong"] or 0, line["n"] or 0) for line in lines),
    }


def by_threshold(rows: Sequence[TraceScore], thresholds: Sequence[float] = THRESHOLDS) -> list[dict[str, float | int | None]]:
    """What would be left of the answers if only those of at least a confidence were given.

    Returns:
        Per threshold: `threshold`; `answers` on training traces, `coverage` (answers / training traces), `precision` (share of
        the answers within 5 %); `false_alarms` on other traces. None where nothing was there to count.
    """
    training = [row for row in rows if row.training]
    table = []
    for threshold in thresholds:
        answers = [row for row in training if row.error is not None and row.confidence >= threshold]
        right = sum(row.right for row in answers)
        table.append(
            {
                "threshold": threshold,
                "answers": len(answers),
                "coverage": _share(len(answers), len(training)),
                "precision": _share(right, len(answers)),
                "false_alarms": sum(row.false_alarm and row.confidence >= threshold for row in rows),
            }
        )
    return table


def reliability(rows: Sequence[TraceScore]) -> dict[str, object]:
    """Stated confidence against the share of right answers, in ten even bins; a false alarm is a wrong answer.

    Returns:
        `n` answers; `ece`, the expected calibration error (Guo et al. 2017, eq. 5): the mean over answers of the distance
        between a bin's mean confidence and its share of right answers, None without answers; `bins` that hold any, each with
        `low` and `high` (the last bin includes 1), `n`, mean `confidence` and share `right`.
    """
    answers = [row for row in rows if row.error is not None or row.false_alarm]
    stated = np.array([row.confidence for row in answers])
    right = np.array([row.right for row in answers], dtype=np.float64)
    number = np.minimum((stated * _BINS).astype(int), _BINS - 1)
    bins = []
    for index in np.unique(number).tolist():
        inside = number == index
        bins.append(
            {
                "low": index / _BINS,
                "high": (index + 1) / _BINS,
                "n": int(inside.sum()),
                "confidence": float(stated[inside].mean()),
                "right": float(right[inside].mean()),
            }
        )
    apart = sum(entry["n"] * abs(entry["confidence"] - entry["right"]) for entry in bins)
    return {"n": len(answers), "ece": _share(apart, len(answers)), "bins": bins}


def _fit(periods: Sequence[tuple[float | None, float | None]], names: set[ClockName]) -> tuple[float | None, float | None]:
    """RMSE and R2 of (detected, true) periods; None on more than one clock."""
    pairs = np.array([pair for pair in periods if None not in pair], dtype=np.float64).reshape(-1, 2)
    if len(names) != 1 or not pairs.size:
        return None, None
    residual = float(((pairs[:, 0] - pairs[:, 1]) ** 2).sum())
    spread = float(((pairs[:, 1] - pairs[:, 1].mean()) ** 2).sum())
    return float(np.sqrt(residual / len(pairs))), 1 - residual / spread if spread > 0 else None


def _share(count: float, total: float) -> float | None:
    return count / total if total else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None
