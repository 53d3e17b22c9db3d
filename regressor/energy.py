"""Mean power and energy on another GPU: no training data, two rules of thumb averaged, and how wrong they are."""

import math
from dataclasses import dataclass

from epochcast.regressor.gpus import Gpu
from epochcast.regressor.prediction import Estimate, Prediction
from epochcast.regressor.profile import Profile

_POWER_METRICS = ("power", "power_average")

# 90 % conformal quantile of |log(power by the rule / measured)| with the true ratio, 1090 public pairs
# (lab/speed/regressor/energy.py).
_RULE_HALF_WIDTH = 0.28


@dataclass(frozen=True)
class Energy:
    """Mean power [W] over an epoch or step, and its energy [J]; no energy where the profile has no epoch seconds."""

    watts: Estimate
    joules: Estimate | None

    def plus(self, other: "Energy") -> "Energy":
        """Both GPUs of one job together; the same rule errs on both."""
        joules = None if self.joules is None or other.joules is None else self.joules.plus(other.joules)
        return Energy(self.watts.plus(other.watts), joules)

    def times(self, gpus: float) -> "Energy":
        """Of so many times as many GPUs that draw the same power."""
        return Energy(self.watts.times(gpus), None if self.joules is None else self.joules.times(gpus))


def mean_power(profile: Profile) -> float | None:
    """Mean board power of the profile [W], None if it holds no reading above 0."""
    for metric in _POWER_METRICS:
        if metric in profile.metrics and profile.metrics[metric]["mean"] > 0:
            return profile.metrics[metric]["mean"]
    return None


def predict_power(watts: float, source: Gpu, target: Gpu, ratio: float) -> float:
    """Mean power on the target [W] of a job that draws ``watts`` on the source and takes ``ratio`` times as long on the target.

    P_t = P_s · sqrt(1/ratio · sqrt(TDP_t/TDP_s)), at most TDP_t: the geometric mean of "an epoch costs the same energy"
    (P_s/ratio) and "power goes with the root of the TDP". Nothing is fitted: a regression on utilisation, TDPs and ratio is no
    better for a new workload and about half as wrong again for a new GPU.
    """
    return min(target.tdp, watts * math.sqrt(math.sqrt(target.tdp / source.tdp) / ratio))


def predict_energy(profile: Profile, prediction: Prediction, source: Gpu, target: Gpu) -> Energy | None:
    """Power and energy of one epoch or step on the target; None if the profile holds no power.

    The ratio enters both under a root, so half its uncertainty does too, and all of it where power is at the TDP; it and the
    rule's own are taken as independent. The source GPU itself keeps its measured power.
    """
    measured = mean_power(profile)
    if measured is None:
        return None
    watts, rule, of_ratio = measured, 0.0, 0.0
    if source != target:
        watts, rule = predict_power(measured, source, target, prediction.ratio), _RULE_HALF_WIDTH
        of_ratio = math.log(prediction.ratio_high / prediction.ratio_low) / 2
    half = math.hypot(rule, of_ratio / 2)
    power = Estimate(watts, watts * math.exp(-half), max(watts, min(target.tdp, watts * math.exp(half))))
    if prediction.seconds is None:
        return Energy(power, None)
    if watts >= target.tdp:
        half = math.hypot(rule, of_ratio)
    below, above = profile.epoch_widths
    joules = watts * prediction.seconds
    return Energy(
        power, Estimate(joules, joules * math.exp(-math.hypot(half, below)), joules * math.exp(math.hypot(half, above)))
    )


def has_sparse_sensor(gpu: Gpu) -> bool:
    """Whether the GPU's power sensor sees only a part of the time, so that the power of short phases may escape it."""
    return gpu.power_sampled not in (None, 1)
