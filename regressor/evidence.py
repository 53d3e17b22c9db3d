"""The sentence that says what an answer rests on."""

import math
from collections.abc import Mapping, Sequence

from epochcast.regressor.calibration import ROUTE as CALIBRATED
from epochcast.regressor.calibration import Calibration
from epochcast.regressor.pairs import Pair
from epochcast.regressor.precision import CODE, likely_precisions
from epochcast.regressor.recipes.default import DefaultRecipe
from epochcast.regressor.speeds import SHEET_FIGURES

# Of a move into order, log. By choice (decision 0043).
_WORTH_SAYING = 0.01

LEFT_OUT = {
    "P2": "workloads left out of training",
    "P3": "jobs left out of training",
    "P4": "GPUs left out of training",
    "P4-anchors": "GPUs left out of training and calibrated",
}


def why(
    pair: Pair,
    route: str,
    support: float,
    *,
    recipe: DefaultRecipe,
    protocol: str,
    calibrations: Sequence[Calibration],
    by_precision: Mapping[str, float],
    moved: float,
) -> str:
    """Say how a pair was answered, what its interval comes from, and what it lacks.

    Args:
        pair: the question.
        route, support: of its answer.
        recipe: the fitted recipe.
        protocol: what was left out of training when the errors behind the interval were made.
        calibrations: those that corrected answers.
        by_precision: ratios of the precisions that are likely, where more than one is.
        moved: log ratio of the answer over what the route gave.
    """
    new = [gpu.name for gpu in (pair.source_gpu, pair.target_gpu) if not recipe.speeds_.speeds_.knows(gpu)]
    parts = [_basis(pair, route, new, recipe, calibrations)]
    if by_precision:
        each = ", ".join(f"{ratio:.2f}x in {CODE[name]}" for name, ratio in by_precision.items())  # type: ignore[index]
        parts.append(f"the precision is not known: {each}")
    parts.append(f"interval from {LEFT_OUT[protocol]}")
    if route in ("ensemble", "incomplete", "residual", CALIBRATED) and round(support, 2) < 1:
        parts.append(f"{_outside(pair, support, recipe)}, so what was learnt from telemetry counts {support:.0%}")
    if route != CALIBRATED and any(gpu.name in new and gpu.vendor != "NVIDIA" for gpu in (pair.source_gpu, pair.target_gpu)):
        parts.append("another vendor's software, with which nothing was measured")
    gpu_figures = pair.source_gpu.unverified + pair.target_gpu.unverified
    unverified = [figure for figure in SHEET_FIGURES if figure in gpu_figures]
    if new and unverified:
        parts.append(f"unverified: {', '.join(unverified)}")
    if abs(moved) > _WORTH_SAYING:
        parts.append(f"moved by {math.expm1(moved):+.0%}, so that no GPU with better figures throughout is predicted slower")
    if pair.source.wait_share:
        parts.append(f"{pair.source.wait_share:.0%} of the time is spent waiting for checkpoints; this share stays")
    if pair.source.epoch_s is None:
        parts.append("no epoch or step was found, so there is only the ratio")
    if pair.source.simulated:
        parts.append("the telemetry is simulated")
    return "; ".join(parts)


def _basis(pair: Pair, route: str, new: Sequence[str], recipe: DefaultRecipe, calibrations: Sequence[Calibration]) -> str:
    names, correction = pair.gpus, recipe.correction_
    sheets = f"nothing was measured on {' and '.join(new)}: data sheets, with weights fitted to other GPUs"
    if route == CALIBRATED:
        applied = next(
            calibration for name in reversed(names) for calibration in calibrations if calibration.gpu == name
        )  # into comes first
        return f"speeds of both GPUs, corrected by {applied.workloads} anchor workloads measured on {applied.gpu}"
    if correction is not None and route in ("ensemble", "incomplete"):
        filled = ", ".join(correction.missing(pair.source))
        like = f"jobs like this one between these GPUs: {correction.pairs_seen_[names].workloads} workloads with telemetry"
        return like + (f", {filled} filled in from the rest" if filled else "")
    if correction is not None and route == "residual":
        return f"{sheets}, corrected by telemetry of jobs on {', '.join(correction.gpus)}"
    if new:
        return sheets
    likely = likely_precisions(pair.source, pair.source_gpu)[0]
    counts = {
        precision: recipe.speeds_.speeds_.jobs_on_both(pair.source_gpu, pair.target_gpu, precision) for precision in likely
    }
    if not any(counts.values()):
        return "no job was measured on both GPUs in this precision: each GPU's speed comes from other jobs and its data sheet"
    return "other jobs between these GPUs: " + ", ".join(f"{count or 'none'} in {CODE[of]}" for of, count in counts.items())


def _outside(pair: Pair, support: float, recipe: DefaultRecipe) -> str:
    """What is outside the training data with telemetry: GPUs, the profile, or both."""
    assert recipe.correction_ is not None
    new = " and ".join([name for name in pair.gpus if name not in recipe.correction_.gpus] or pair.gpus)
    known = float(recipe.correction_.gpu_range_.support([pair])[0])
    reasons = [f"the data sheet of {new} is beyond those of the GPUs with telemetry"] if round(known, 2) < 1 else []
    return " and ".join([*reasons, "the profile is unlike the training profiles"] if support < known else reasons)
