"""The sentence that says what an answer rests on."""

from collections.abc import Sequence

from .calibration import ROUTE as CALIBRATED
from .calibration import Calibration
from .derived import usable_metrics
from .features import busy_share
from .pairs import Pair
from .recipes.default import DefaultRecipe
from .reliability import Reliability

# What the prior reads of a data sheet; an answer that rests on an unverified one of these says so.
_PRIOR_FIGURES = ("sm_count", "cuda_cores", "boost_clock", "memory_bandwidth")

_LEFT_OUT = {
    "P2": "workloads left out of training",
    "P3": "models left out of training",
    "P4": "GPUs left out of training",
    "P4-anchors": "GPUs left out of training and calibrated",
    "prior": "the errors of utilisation and data sheets alone",
}


def why(
    pair: Pair,
    route: str,
    support: float,
    *,
    recipe: DefaultRecipe,
    reliability: Reliability,
    gpus: Sequence[str],
    calibrations: Sequence[Calibration],
) -> str:
    """Say how a pair was answered, what its interval comes from, and what it lacks.

    Args:
        pair: the question.
        route, support: of its answer.
        recipe, reliability: the fitted recipe and what its answers are worth.
        gpus: those of the training data.
        calibrations: those that corrected answers.
    """
    parts = [_basis(pair, route, recipe, gpus, calibrations)]
    protocol = reliability.intervals[route].protocol
    learnt = route not in ("prior", "specifications")
    if learnt:
        parts.append(f"interval from {_LEFT_OUT[protocol]}" + (f" ({', '.join(gpus)})" if route == "residual" else ""))
    if learnt and round(support, 2) < 1:
        outside = _outside(pair, support, recipe, gpus)
        parts.append(f"{outside}, so what was learnt counts {support:.0%}, and utilisation and data sheets alone the rest")
    gpu_figures = pair.source_gpu.unverified + pair.target_gpu.unverified
    unverified = [figure for figure in _PRIOR_FIGURES if figure in gpu_figures]
    if route not in ("ensemble", "incomplete") and unverified:
        parts.append(f"unverified: {', '.join(unverified)}")
    if pair.source.epoch_s is None:
        parts.append("no epoch or step was found, so the ratio stands alone")
    if pair.source.simulated:
        parts.append("the telemetry is simulated")
    return "; ".join(parts)


def _basis(pair: Pair, route: str, recipe: DefaultRecipe, gpus: Sequence[str], calibrations: Sequence[Calibration]) -> str:
    names = pair.source_gpu.name, pair.target_gpu.name
    missing = ", ".join(sorted(set(recipe.features_.metrics) - usable_metrics(pair.source)))
    new = [name for name in names if name not in gpus]
    if new:
        unseen = f"{' and '.join(new)} not in the training data"
    elif names in recipe.pairs_seen_:
        unseen = f"only {recipe.pairs_seen_[names].workloads} workloads of the training data ran on both GPUs"
    else:
        unseen = "a pair of GPUs that training has not seen"
    if route == "ensemble":
        return f"learnt from {recipe.pairs_seen_[names].workloads} workloads measured on both GPUs"
    if route == "incomplete":
        return f"learnt from {recipe.pairs_seen_[names].workloads} workloads, with {missing} filled in from the rest"
    if route == CALIBRATED:
        made = next(one for name in reversed(names) for one in calibrations if one.gpu == name)  # into comes first
        return f"{unseen}: corrected by {made.workloads} anchor workloads measured on {made.gpu}"
    if route == "residual":
        return f"{unseen}: utilisation and data sheets, corrected by trees"
    if route == "prior":
        return f"{unseen} and the profile lacks {missing}: {busy_share(pair.source)[1]} and data sheets alone"
    return "the profile holds no activity metric: data sheets alone, as if the GPU were always busy"


def _outside(pair: Pair, support: float, recipe: DefaultRecipe, gpus: Sequence[str]) -> str:
    """What lies outside of training: GPUs, the profile, or both."""
    names = pair.source_gpu.name, pair.target_gpu.name
    new = " and ".join([name for name in names if name not in gpus] or names)  # or: a user's own figures for a known GPU
    known = float(recipe.gpu_range_.support([pair])[0])
    reasons = [f"the data sheet of {new} is beyond those of the training GPUs"] if round(known, 2) < 1 else []
    return " and ".join([*reasons, "the profile is unlike the training profiles"] if support < known else reasons)
