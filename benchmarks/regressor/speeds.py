"""Where the standard deviations of ``regressor/speeds.py`` come from, and what each part of the model brings, as tables.

    EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.speeds [--write]

The first table maximises the marginal likelihood of the measured rates. The second leaves a part out (its standard deviation
nearly 0; slopes then stay those of the roofline) and scores both protocols. The third says what a job's precision and telemetry
are worth: groups left out of training are asked about with less known of them, or something wrong, while training and intervals
rest on what was measured. Twenty minutes.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from epochcast.regressor import Profile, evaluate, load_catalog, load_corpus, speeds
from epochcast.regressor.evaluation.interval_scores import fold_wise
from epochcast.regressor.intervals import Interval
from epochcast.regressor.pairs import Pair, actual_ratio, make_pairs
from epochcast.regressor.precision import Precision
from epochcast.regressor.protocols import out_of_fold
from epochcast.regressor.recipes import DefaultRecipe, SpeedsRecipe
from epochcast.regressor.recipes.speeds import rates_of
from epochcast.regressor.reliability import SecondQuestion, both, new_jobs_without_telemetry
from epochcast.regressor.speeds import Rate, Speeds

from .public_pairs import RATES, header, line, options, report

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
    """The tables, line by line as the figures come."""
    profiles, catalog = load_corpus(RATES), load_catalog()
    rates = rates_of(make_pairs(profiles, catalog))
    yield f"{len(rates)} rates of {len({rate.job for rate in rates})} jobs on {len({rate.gpu.name for rate in rates})} GPUs."
    yield ""
    yield from header("standard deviation of", "most likely", "in the model")
    likeliest = most_likely(rates)
    for name, what in SCALES.items():
        yield line(what, f"{likeliest[name]:.3f}", f"{getattr(speeds, name):g}")
    yield ""
    yield from header("", "new workload: MAPE, median %", "mean over groups", "new GPU: MAPE, median %")
    yield scored("as it is", profiles)
    for name, what in SCALES.items():
        held = getattr(speeds, name)
        setattr(speeds, name, _NONE)
        yield scored(f"without {what}", profiles)
        setattr(speeds, name, held)
    yield ""
    yield from asked_otherwise(make_pairs(profiles, catalog))
    yield ""
    yield from nothing_measured(make_pairs(profiles, catalog))


def most_likely(rates: list[Rate]) -> dict[str, float]:
    """The standard deviations that maximise the marginal likelihood, the origins' scatter as the model estimates it."""
    names = list(SCALES)
    held = {name: getattr(speeds, name) for name in names}

    def negative(log_scales: np.ndarray) -> float:
        for name, value in zip(names, np.exp(log_scales).tolist(), strict=True):
            setattr(speeds, name, value)
        return -log_likelihood(Speeds().fit(rates))

    found = minimize(negative, np.log(list(held.values())), method="L-BFGS-B", bounds=[(math.log(0.005), 0.0)] * len(names))
    for name, value in held.items():
        setattr(speeds, name, value)
    return dict(zip(names, np.exp(found.x).tolist(), strict=True))


def log_likelihood(model: Speeds) -> float:
    """Of the rates with all coefficients integrated out, up to a constant (Rasmussen and Williams 2006, eq. 2.30)."""
    means, fit = model._shared_means(), 0.0
    for job in model._jobs.values():
        left = job.log_speed - job.shared @ means
        fit += left @ job.inverse @ left - np.linalg.slogdet(job.inverse)[1]
    moved = model._mean - means
    shared = np.linalg.slogdet(model._information)[1] + 2 * np.log(model._shared_scales()).sum()
    return -0.5 * float(fit - moved @ model._information @ moved + shared)


def scored(what: str, profiles: list[Profile]) -> str:
    """A line of the second table."""
    catalog = load_catalog()
    workload, gpu = (
        evaluate(profiles, catalog, protocol=protocol, recipe=SpeedsRecipe()) for protocol in ("new-workload", "new-gpu")
    )
    return line(
        what,
        f"{workload.mape:.1f}, {workload.median_ape:.1f}",
        f"{workload.mape_by_group:.1f}",
        f"{gpu.mape:.1f}, {gpu.median_ape:.1f}",
    )


def asked_otherwise(pairs: list[Pair]) -> Iterator[str]:
    """The third table."""

    def second(change: Callable[[Profile], Profile]) -> SecondQuestion:
        changed = [replace(pair, source=change(pair.source)) for pair in pairs]
        return SecondQuestion(lambda recipe, test: (test, recipe.answer([changed[row] for row in test.tolist()])))

    asked = {what: second(change) for what, change in QUESTIONS.items()}
    _, folds, known = out_of_fold(pairs, "new-workload", DefaultRecipe(), also=both(*asked.values()))
    assert known is not None
    truth = np.log(actual_ratio(pairs))
    yield from header(
        "", "new workload: MAPE, median %", "in 90 % interval", "half-width %", "pairs it changes", "their MAPE before, after %"
    )
    for what, question in asked.items():
        answers = question.answers()
        half = np.full(len(pairs), np.nan)
        for fold in np.unique(folds).tolist():
            here, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            half[here] = Interval.of_errors(known.log_ratio[others] - truth[others], known[others], "").half_widths(
                answers[here]
            )
        error, before = (100 * np.abs(np.expm1(of.log_ratio - truth)) for of in (answers, known))
        changed = answers.log_ratio != known.log_ratio
        yield line(
            what,
            f"{error.mean():.1f}, {np.median(error):.1f}",
            f"{np.mean(np.abs(answers.log_ratio - truth) <= half):.1%}",
            f"{100 * np.expm1(np.median(half)):.0f}",
            f"{changed.sum()}",
            f"{before[changed].mean():.1f}, {error[changed].mean():.1f}" if changed.any() else "–",
        )


def nothing_measured(pairs: list[Pair]) -> Iterator[str]:
    """What a user's job meets on a GPU that nobody measured: neither was in training, on any GPU and by any job."""
    question, truth = new_jobs_without_telemetry(pairs), np.log(actual_ratio(pairs))
    _, folds, _ = out_of_fold(pairs, "new-gpu", DefaultRecipe(), also=question)
    answers = question.answers()
    error, half = answers.log_ratio - truth, fold_wise(answers.log_ratio - truth, folds, answers)
    ape = 100 * np.abs(np.expm1(error))
    yield (
        f"A new job on a new GPU, without telemetry: MAPE {ape.mean():.1f} %, median {np.median(ape):.1f} %, "
        f"{np.mean(np.abs(error) <= half):.1%} in the 90 % interval, half-width {100 * np.expm1(np.median(half)):.0f} %."
    )
    _, folds, known = out_of_fold(pairs, "new-workload", DefaultRecipe())
    assert known is not None
    inside = np.abs(known.log_ratio - truth) <= fold_wise(known.log_ratio - truth, folds, known)
    groups = np.array([pair.source.group for pair in pairs])
    shares = [float(inside[groups == group].mean()) for group in np.unique(groups) if np.sum(groups == group) >= 100]
    yield (
        f"In the 90 % interval of a new job, by family with 100 pairs or more ({len(shares)}): "
        f"{min(shares):.0%} to {max(shares):.0%}, median {np.median(shares):.0%}."
    )


if __name__ == "__main__":
    report("speeds", lines(), options(__doc__ or ""))
