"""Where the standard deviations of ``regressor/speeds.py`` come from, and what each part of the model brings, as tables.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.speeds [--write]

The first table maximises the marginal likelihood of the measured rates. The second leaves a part out (its standard deviation
nearly 0; slopes then stay those of the roofline) and scores both protocols. The third says what a job's precision and telemetry
are worth: groups left out of training are asked about with less known of them, or something wrong, while training and intervals
rest on what was measured. Twenty minutes.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.optimize import minimize

from epochcast.regressor import Profile, load_catalog, load_corpus, speeds
from epochcast.regressor.intervals import ScaledInterval
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs
from epochcast.regressor.precision import Precision
from epochcast.regressor.protocols import out_of_fold
from epochcast.regressor.recipes import DefaultRecipe, SpeedsRecipe
from epochcast.regressor.recipes.speeds import rates_of
from epochcast.regressor.reliability import FoldAnswers, both, new_jobs_without_telemetry
from epochcast.regressor.speeds import MeasuredRate, Speeds
from lab.evaluate.latency import evaluate
from lab.evaluate.latency.interval_scores import fold_wise, score_intervals
from lab.speed.page import REGRESSOR, markdown_table, options, publish
from lab.speed.regressor.public_pairs import RATES

SCALES = {
    "_SLOPE": "slopes of the data-sheet figures",
    "_SLOPE_OF_PRECISION": "the same, by precision",
    "_SLOPE_OF_JOB": "the same, by job",
    "_GPU": "a GPU's own speed",
    "_GPU_OF_JOB": "a GPU's own speed, by job",
    "_ARCHITECTURE_OF_JOB": "an architecture's speed, by precision and job",
    "_BATCH": "the batch",
    "_BATCH_OF_JOB": "the batch, by job",
}
_NONE = 1e-4
_MANY_PAIRS = 100

_WRONG: Mapping[Precision | None, Precision] = {"tf32": "mixed", "mixed": "tf32"}

QUESTIONS: Mapping[str, Callable[[Profile], Profile]] = {
    "as measured": lambda profile: profile,
    "precision withheld": lambda profile: replace(profile, precision=None),
    "FP32 code taken for mixed precision, and mixed for FP32 code": lambda profile: replace(
        profile, precision=_WRONG.get(profile.precision, profile.precision)
    ),
    "telemetry withheld": lambda profile: replace(profile, metrics={}, feature_set="none"),
}


def lines() -> Iterator[str]:
    """The tables, and what a user's job meets."""
    profiles = load_corpus(RATES)
    pairs = make_pairs(profiles, load_catalog())
    rates = rates_of(pairs)
    yield f"{len(rates)} rates of {len({rate.job for rate in rates})} jobs on {len({rate.gpu.name for rate in rates})} GPUs."
    yield ""
    likeliest = most_likely(rates)
    rows = [(what, f"{likeliest[name]:.3f}", f"{getattr(speeds, name):g}") for name, what in SCALES.items()]
    yield from markdown_table(("standard deviation of", "most likely", "in the model"), rows)
    yield ""
    scores = [scored("as it is", profiles)]
    for name, what in SCALES.items():
        with patch.object(speeds, name, _NONE):
            scores.append(scored(f"without {what}", profiles))
    header = ("", "new workload: MAPE, median %", "mean over groups", "new GPU: MAPE, median %")
    yield from markdown_table(header, scores)
    yield ""
    yield from asked_otherwise(pairs)
    yield ""
    yield from nothing_measured(pairs)


def most_likely(rates: list[MeasuredRate]) -> dict[str, float]:
    """The standard deviations that maximise the marginal likelihood, the origins' scatter as the model estimates it."""

    def scales(logarithms: np.ndarray) -> dict[str, Any]:
        return dict(zip(SCALES, np.exp(logarithms).tolist(), strict=True))

    def negative(logarithms: np.ndarray) -> float:
        with patch.multiple(speeds, **scales(logarithms)):
            return -log_likelihood(Speeds().fit(rates))

    start = np.log([getattr(speeds, name) for name in SCALES])
    return scales(minimize(negative, start, method="L-BFGS-B", bounds=[(math.log(0.005), 0.0)] * len(start)).x)


def log_likelihood(model: Speeds) -> float:
    """Of the rates with all coefficients integrated out, up to a constant (Rasmussen and Williams 2006, eq. 2.30)."""
    means, fit = model._shared_means(), 0.0
    for job in model._jobs.values():
        left = job.log_speed - job.shared @ means
        fit += left @ job.inverse @ left - np.linalg.slogdet(job.inverse)[1]
    moved = model._mean - means
    shared = np.linalg.slogdet(model._information)[1] + 2 * np.log(model._shared_scales()).sum()
    return -0.5 * float(fit - moved @ model._information @ moved + shared)


def scored(what: str, profiles: list[Profile]) -> tuple[str, ...]:
    """A line of the second table."""
    workload, gpu = (
        evaluate(profiles, load_catalog(), protocol=protocol, recipe=SpeedsRecipe()) for protocol in ("new-workload", "new-gpu")
    )
    of_workload, of_gpu = (f"{result.mape:.1f}, {result.median_ape:.1f}" for result in (workload, gpu))
    return what, of_workload, f"{workload.mape_by_group:.1f}", of_gpu


def asked_otherwise(pairs: list[Pair]) -> Iterator[str]:
    """The third table."""

    def second(change: Callable[[Profile], Profile]) -> FoldAnswers:
        changed = [replace(pair, source=change(pair.source)) for pair in pairs]
        return FoldAnswers(lambda recipe, test: (test, recipe.answer([changed[row] for row in test.tolist()])))

    asked = {what: second(change) for what, change in QUESTIONS.items()}
    _, folds, known = out_of_fold(pairs, "new-workload", DefaultRecipe(), also=both(*asked.values()))
    assert known is not None
    truth, rows = np.log(actual_ratio(pairs)), []
    for what, question in asked.items():
        answers = question.answers()
        half = np.full(len(pairs), np.nan)
        for fold in np.unique(folds).tolist():
            here, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            interval = ScaledInterval.of_errors(known.log_ratio[others] - truth[others], known[others], "")
            half[here] = interval.half_widths(answers[here])
        error, before = (100 * np.abs(np.expm1(of.log_ratio - truth)) for of in (answers, known))
        changed = answers.log_ratio != known.log_ratio
        scores = score_intervals(answers.log_ratio - truth, half)
        before_after = f"{before[changed].mean():.1f}, {error[changed].mean():.1f}" if changed.any() else "–"
        errors = f"{error.mean():.1f}, {np.median(error):.1f}"
        rows.append((what, errors, f"{scores.inside:.1%}", f"{scores.half_width:.0f}", f"{changed.sum()}", before_after))
    header = ("", "new workload: MAPE, median %", "in 90 % interval", "half-width %", "pairs it changes")
    yield from markdown_table((*header, "their MAPE before, after %"), rows)


def nothing_measured(pairs: list[Pair]) -> Iterator[str]:
    """What a user's job meets on a GPU that nobody measured: neither was in training, on any GPU and by any job."""
    question, truth = new_jobs_without_telemetry(pairs), np.log(actual_ratio(pairs))
    _, folds, _ = out_of_fold(pairs, "new-gpu", DefaultRecipe(), also=question)
    error = question.answers().log_ratio - truth
    scores = score_intervals(error, fold_wise(error, folds, question.answers()))
    ape = 100 * np.abs(np.expm1(error))
    yield (
        f"A new job on a new GPU, without telemetry: MAPE {ape.mean():.1f} %, median {np.median(ape):.1f} %, "
        f"{scores.inside:.1%} in the 90 % interval, half-width {scores.half_width:.0f} %."
    )
    _, folds, known = out_of_fold(pairs, "new-workload", DefaultRecipe())
    assert known is not None
    inside = np.abs(known.log_ratio - truth) <= fold_wise(known.log_ratio - truth, folds, known)
    groups = np.array([pair.source.group for pair in pairs])
    shares = [inside[groups == group].mean() for group in np.unique(groups) if np.sum(groups == group) >= _MANY_PAIRS]
    yield (
        f"In the 90 % interval of a new job, by family with {_MANY_PAIRS} pairs or more ({len(shares)}): "
        f"{min(shares):.0%} to {max(shares):.0%}, median {np.median(shares):.0%}."
    )


if __name__ == "__main__":
    publish(REGRESSOR, "speeds", lines(), write=options(__doc__).parse_args().write)
