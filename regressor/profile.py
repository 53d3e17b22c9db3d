"""The profile of one job on one GPU: seven statistics per metric, and the length of an epoch or step."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, get_args

from annotated_types import Ge, Gt, Le, Len

from epochcast.regressor.errors import InputError
from epochcast.regressor.job_types import JobType
from epochcast.regressor.precision import Precision

STATISTICS = ("mean", "std", "min", "p25", "p50", "p75", "max")
"""Statistics of a metric, section III-C.1 of the black-box paper; std with ddof=1."""

NVML_METRICS = (
    "gpu_utilization",
    "memory_utilization",
    "power",
    "power_average",
    "sm_clock",
    "memory_clock",
    "temperature",
    "memory_used",
    "memory_free",
    "bar1_used",
    "bar1_free",
)
DCGM_METRICS = (
    "gr_engine_active",
    "sm_active",
    "sm_occupancy",
    "tensor_active",
    "dram_active",
    "fp64_active",
    "fp32_active",
    "fp16_active",
    "pcie_tx",
    "pcie_rx",
    "nvlink_tx",
    "nvlink_rx",
)
METRICS = frozenset(NVML_METRICS + DCGM_METRICS)
"""GPU metrics that a profile holds, named and scaled as in the metric catalogue; counters and host metrics stay out."""

RATIOS = frozenset(name for name in METRICS if name.endswith(("_utilization", "_active", "_occupancy")))

Reason = Literal["power_cap", "thermal", "hardware_thermal", "power_brake", "board_limit", "reliability", "clock_setting"]
"""Why clocks are reduced."""

THROTTLED: dict[str, Reason] = {f"throttled_{reason}": reason for reason in get_args(Reason)}
"""Column of the metric catalogue, a share of time -> why clocks are reduced."""

LONGEST_NAME = 200
"""Letters of the name of a GPU, a workload or a group, as a model file holds it. By choice, as the bounds below."""

MOST_GPUS = 100_000
"""Of one job."""

# No seconds, counts, power, clock, traffic or memory are larger: beyond, sums overflow.
_LARGEST = 1e18

# By choice: the data sheets of the catalogue end at 1400.
_MOST_WATTS = 5000

Name = Annotated[str, Len(1, LONGEST_NAME)]
Count = Annotated[int, Ge(0), Le(int(_LARGEST))]
Amount = Annotated[float, Ge(0), Le(_LARGEST)]
Seconds = Annotated[float, Ge(1 / _LARGEST), Le(_LARGEST)]
Share = Annotated[float, Ge(0), Le(1)]

STRICT = {"extra": "forbid", "strict": True, "allow_inf_nan": False}
"""How pydantic reads JSON into our dataclasses: texts are no numbers, and all that is known is declared."""

FeatureSet = Literal["nvml", "dcgm", "none"]
Unit = Literal["epoch", "step", "cycle"]


def feature_set(metrics: Mapping[str, object]) -> FeatureSet:
    """Name the tier of telemetry: ``dcgm`` once a profiling metric is there, ``nvml`` with utilisation alone, else ``none``."""
    if any(name in metrics for name in DCGM_METRICS):
        return "dcgm"
    return "nvml" if "gpu_utilization" in metrics else "none"


@dataclass(frozen=True)
class Profile:
    """One job on one GPU.

    Attributes:
        gpu: any name that the GPU catalogue resolves.
        epoch_s: seconds of one epoch, step or cycle, ``None`` if none was found.
        unit: what ``epoch_s`` measures; ``cycle`` if it is neither an epoch nor a step, such as the time between checkpoints.
        epochs: how many of them the statistics cover (of steps, as many as fit); 0 if none was found.
        metrics: metric name -> statistic (:data:`STATISTICS`) -> value in base units.
        feature_set: which tier of telemetry the metrics come from.
        first_epoch_excluded: whether the first epoch (warm-up, compilation) was left out.
        workload: what was trained; profiles of the same workload on different GPUs make training pairs.
        group: the family of workloads (a model architecture) that leave-one-model-out keeps together.
        simulated: the telemetry is simulated; kept in the profile so that every answer says so.
        epoch_s_low, epoch_s_high: 90 % interval of ``epoch_s`` from its detection; ``None`` if it was measured directly.
        step_s: seconds of one training step, if known in addition to epochs.
        first_epoch_s: seconds of the first epoch, if it was left out.
        stalls: how many epochs were left out as stalls.
        stall_s: total seconds of the stalls above ``epoch_s``.
        precision: of the job's matrix products, if known.
        batch: items in one step, if known.
        origin: the collection of measurements that a training profile comes from; its jobs share software and habits.
        gpus: how many GPUs of one machine the job ran on, this one included.
        tensor_clock: mean over the samples of `tensor_active` times `sm_clock` [Hz]; ``None`` without either.
        throttled: reason (of :data:`THROTTLED`) -> share of time in which it held the clocks down, 0..1, mean over the samples;
            several may hold at once. ``None`` if the telemetry has no reasons.
        held_idle_s: seconds of the job in which memory was held and nothing ran; ``None`` if that is not known.
        type: what kind of job it is; ``None`` where nobody said.
        inference: the job answers, and does not train.
        wait_share: 0..1, the part of its time in which the job waits for its checkpoints, which another GPU does not shorten.

    Raises:
        InputError: a value is missing, not finite, or impossible for its metric.
    """

    __pydantic_config__: ClassVar = STRICT

    gpu: Name
    epoch_s: Seconds | None
    unit: Unit | None
    epochs: Count
    metrics: Mapping[str, Mapping[str, float]] = field(repr=False)
    feature_set: FeatureSet
    first_epoch_excluded: bool
    workload: Name | None = None
    group: Name | None = None
    simulated: bool = False
    epoch_s_low: Seconds | None = None
    epoch_s_high: Seconds | None = None
    step_s: Seconds | None = None
    first_epoch_s: Seconds | None = None
    stalls: Count = 0
    stall_s: Amount = 0.0
    precision: Precision | None = None
    batch: Annotated[float, Gt(0), Le(_LARGEST)] | None = None
    origin: Name | None = None
    gpus: Annotated[int, Ge(1), Le(MOST_GPUS)] = 1
    wait_share: Share = 0.0
    tensor_clock: Amount | None = None
    throttled: Mapping[Reason, Share] | None = None
    held_idle_s: Amount | None = None
    type: JobType | None = None
    inference: bool = False

    def __post_init__(self) -> None:
        if (self.epoch_s is None) != (self.unit is None):
            raise InputError(f"the profile has epoch_s {self.epoch_s!r} and unit {self.unit!r}; give both, or neither")
        low, high = self.epoch_s_low, self.epoch_s_high
        around = low is not None and self.epoch_s is not None and high is not None and low <= self.epoch_s <= high
        if not around and not (low is None and high is None):
            raise InputError(
                f"the profile's epoch_s_low and epoch_s_high are {low!r} and {high!r} around epoch_s {self.epoch_s!r}; "
                "give 0 < low <= epoch_s <= high, or leave both out"
            )
        if (self.stall_s > 0) != (self.stalls > 0):
            raise InputError(
                f"the profile has {self.stalls} stalls and stall_s {self.stall_s!r}; it is above 0 with stalls, 0 without"
            )
        for name, statistics in self.metrics.items():
            _check_metric(name, statistics)

    @property
    def epoch_widths(self) -> tuple[float, float]:
        """Logs of ``epoch_s`` over the low end of its interval, and of the high end over it; 0 without one."""
        if self.epoch_s is None or self.epoch_s_low is None or self.epoch_s_high is None:
            return 0.0, 0.0
        return math.log(self.epoch_s / self.epoch_s_low), math.log(self.epoch_s_high / self.epoch_s)


def _check_metric(name: str, statistics: Mapping[str, float]) -> None:
    if name not in METRICS:
        close = get_close_matches(str(name)[:LONGEST_NAME], METRICS, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(METRICS))}"
        raise InputError(f"unknown metric {name!r:.60} in the profile; {remedy}")
    if set(statistics) != set(STATISTICS):
        raise InputError(f"metric {name!r} holds {statistics!r}; it needs exactly {', '.join(STATISTICS)}")
    for statistic, value in statistics.items():
        if not abs(value) <= _LARGEST:  # NaN compares false
            raise InputError(f"{statistic} of {name!r} is {value!r:.60}; it must be a finite number, at most {_LARGEST:g}")
    # A ratio that reads a hair above one is rounding of the counter, not a percentage; 1 % by choice.
    if name in RATIOS and not (statistics["min"] >= 0 and statistics["max"] <= 1.01):
        raise InputError(
            f"{name!r} ranges from {statistics['min']} to {statistics['max']}; ratios are 0 to 1 (divide percents by 100)"
        )
    if statistics["min"] < 0 and name != "temperature":
        raise InputError(f"min of {name!r} is {statistics['min']}; it cannot be below 0, record it again")
    if name in ("sm_clock", "memory_clock") and 0 < statistics["max"] < 1e6:
        raise InputError(f"max of {name!r} is {statistics['max']} Hz; no GPU runs that slowly (multiply MHz by 1e6)")
    if name in ("power", "power_average") and statistics["mean"] > _MOST_WATTS:
        raise InputError(f"mean of {name!r} is {statistics['mean']} W; no GPU draws that much (divide mW by 1000)")
    # A mean or a quartile of equal readings may leave their range by a rounding error.
    slack = 1e-9 * max(abs(statistics["min"]), abs(statistics["max"]))
    ordered = [statistics[key] for key in ("min", "p25", "p50", "p75", "max")]
    in_order = all(low <= high + slack for low, high in pairwise(ordered))
    if statistics["std"] < 0 or not in_order or not ordered[0] - slack <= statistics["mean"] <= ordered[-1] + slack:
        raise InputError(f"the statistics of {name!r} contradict each other ({dict(statistics)}); compute them again")
