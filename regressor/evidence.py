"""The sentence that says what an answer rests on."""

import math
from collections.abc import Mapping, Sequence

from epochcast.regressor.calibration import ROUTE as CALIBRATED
from epochcast.regressor.calibration import Calibration
from epochcast.regressor.pairs import Pair
from epochcast.regressor.precision import CODE
from epochcast.regressor.recipes.default import DefaultRecipe, family_of, work_of
from epochcast.regressor.ridge import SHEET_FIGURES

# Of a move into order, log. By choice (decision 0043).
_WORTH_SAYING = 0.01

_ARTICLES = {"llm": "an", "rnn": "an"}
_ON_NEITHER = "no job was measured on both GPUs: each GPU's speed comes from other jobs and its data sheet"

LEFT_OUT = {
    "P2": "workloads left out of training",
    "P3": "jobs left out of training",
    "P4": "GPUs left out of training",
}


def why(
    pair: Pair,
    route: str,
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
        route: of its answer.
        recipe: the fitted recipe.
        protocol: what was left out of training when the errors behind the interval were made.
        calibrations: those that corrected answers.
        by_precision: ratios of the precisions that are likely, where more than one is.
        moved: log ratio of the answer over what the route gave.
    """
    new = [gpu.name for gpu in (pair.source_gpu, pair.target_gpu) if not recipe.ridge_.knows(gpu)]
    parts = [_basis(pair, route, new, recipe, calibrations), _kind(pair)]
    if by_precision:
        each = ", ".join(f"{ratio:.2f}x in {CODE[name]}" for name, ratio in by_precision.items())  # type: ignore[index]
        parts.append(f"the precision is not known: {each}")
    work = work_of(pair.source, pair.source_gpu)
    if route != "telemetry" and work.short and not recipe.ridge_.knows_family(work, pair.source_gpu, pair.target_gpu):
        parts.append("its steps are so short that launches may be any part of them, which take as long on every GPU")
    parts.append(f"interval from {LEFT_OUT[protocol]}")
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
    sheets = f"nothing was measured on {' and '.join(new)}: data sheets, with weights fitted to other GPUs"
    if route == CALIBRATED:
        applied = next(
            calibration for name in reversed(pair.gpus) for calibration in calibrations if calibration.gpu == name
        )  # into comes first
        return f"speeds of both GPUs, corrected by {applied.count} anchor workloads measured on {applied.gpu}"
    if recipe.telemetry_ is not None and route == "telemetry":
        count = recipe.telemetry_.workloads.get(" to ".join(pair.gpus), 0)
        return f"jobs like this one between these GPUs: {count} workloads with telemetry"
    if new and recipe.telemetry_ is not None and recipe.uses_telemetry(pair):
        return f"{sheets}, and telemetry of jobs on {', '.join(recipe.telemetry_.gpus)}"
    if new:
        return sheets
    count = recipe.ridge_.jobs_on_both(pair.source_gpu, pair.target_gpu)
    return f"other jobs between these GPUs: {count} famil{'y' if count == 1 else 'ies'} of networks" if count else _ON_NEITHER


def _kind(pair: Pair) -> str:
    """What the job is taken for."""
    source = pair.source
    if source.type is None:
        return "its type is not known, so this is the mean over types"
    family = f", family {family_of(source)}" if source.group else ""
    job = f"{_ARTICLES.get(source.type, 'a')} {source.type}{family}"
    return f"taken for {'inference by' if source.inference else 'training of'} {job}"
