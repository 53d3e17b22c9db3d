"""The profile of one job on one GPU: seven statistics per metric, and the length of an epoch or step."""

import sys
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Literal, get_args

from epochcast.regressor.errors import InputError
from epochcast.regressor.job_types import JOB_TYPES, JobType
from epochcast.regressor.precision import Precision

SCHEMA = "epochcast.profile/v1"

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

THROTTLED = {
    f"throttled_{reason}": reason
    for reason in (
        *("power_cap", "thermal", "hardware_thermal", "power_brake", "board_limit", "reliability"),
        "clock_setting",
    )
}
"""Column of the metric catalogue, a share of time -> why clocks are reduced."""

LONGEST_NAME = 200
"""Letters of the name of a GPU, a workload or a group, as a model file holds it. By choice, as the bounds below."""

MOST_GPUS = 100_000
"""Of one job."""

# No seconds, counts, power, clock, traffic or memory are larger: beyond, sums overflow.
_LARGEST = 1e18

# By choice: the data sheets of the catalogue end at 1400.
_MOST_WATTS = 5000

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
        epochs: how many of them the statistics cover; 0 if they span the whole trace.
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

    gpu: str
    epoch_s: float | None
    unit: Unit | None
    epochs: int
    metrics: Mapping[str, Mapping[str, float]] = field(repr=False)
    feature_set: FeatureSet
    first_epoch_excluded: bool
    workload: str | None = None
    group: str | None = None
    simulated: bool = False
    epoch_s_low: float | None = None
    epoch_s_high: float | None = None
    step_s: float | None = None
    first_epoch_s: float | None = None
    stalls: int = 0
    stall_s: float = 0.0
    precision: Precision | None = None
    batch: float | None = None
    origin: str | None = None
    gpus: int = 1
    wait_share: float = 0.0
    tensor_clock: float | None = None
    throttled: Mapping[str, float] | None = None
    held_idle_s: float | None = None
    type: JobType | None = None
    inference: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.gpu, str) and 1 <= len(self.gpu) <= LONGEST_NAME):
            raise InputError(f"the profile's gpu is {self.gpu!r:.60}; give the GPU's name, at most {LONGEST_NAME} letters")
        if (self.epoch_s is None) != (self.unit is None) or self.unit not in (*get_args(Unit), None):
            raise InputError(
                f"the profile has epoch_s {self.epoch_s!r} and unit {self.unit!r}; "
                "give both (of an 'epoch', 'step' or 'cycle') or neither"
            )
        if self.epoch_s is not None and not _is_duration(self.epoch_s):
            raise InputError(
                f"the profile's epoch_s is {self.epoch_s!r:.60}; it must be a number of seconds above 0, at most {_LARGEST:g}"
            )
        if not _is_integer(self.epochs, 0, _LARGEST):
            raise InputError(f"the profile's epochs is {self.epochs!r:.60}; it must be a whole number, 0 or more")
        if self.feature_set not in ("nvml", "dcgm", "none"):
            raise InputError(f"the profile's feature_set is {self.feature_set!r}; it must be 'nvml', 'dcgm' or 'none'")
        if self.precision not in (*get_args(Precision), None):
            known = ", ".join(get_args(Precision))
            raise InputError(f"the profile's precision is {self.precision!r:.60}; it must be one of {known}, or null")
        if self.type not in (*JOB_TYPES, None):
            raise InputError(f"the profile's type is {self.type!r:.60}; it must be one of {', '.join(JOB_TYPES)}, or null")
        if self.batch is not None and not (_is_number(self.batch) and 0 < self.batch <= _LARGEST):
            raise InputError(f"the profile's batch is {self.batch!r:.60}; it must be a number above 0, or null")
        if not _is_integer(self.gpus, 1, MOST_GPUS):
            raise InputError(f"the profile's gpus is {self.gpus!r:.60}; it must be a whole number from 1 to {MOST_GPUS}")
        if not _is_number(self.wait_share) or not 0 <= self.wait_share <= 1:
            raise InputError(f"the profile's wait_share is {self.wait_share!r:.60}; it must be a number from 0 to 1")
        if self.tensor_clock is not None and not (_is_number(self.tensor_clock) and 0 <= self.tensor_clock <= _LARGEST):
            raise InputError(f"the profile's tensor_clock is {self.tensor_clock!r:.60}; it must be a number of hertz, or null")
        if self.held_idle_s is not None and not (_is_number(self.held_idle_s) and 0 <= self.held_idle_s <= _LARGEST):
            raise InputError(f"the profile's held_idle_s is {self.held_idle_s!r:.60}; it must be a number of seconds, or null")
        _check_throttled(self.throttled)
        for key in ("workload", "group", "origin"):
            value = getattr(self, key)
            if value is not None and not (isinstance(value, str) and 1 <= len(value) <= LONGEST_NAME):
                raise InputError(
                    f"the profile's {key} is {value!r:.60}; it must be text of 1 to {LONGEST_NAME} letters, or null"
                )
        for key in ("first_epoch_excluded", "simulated", "inference"):
            if not isinstance(getattr(self, key), bool):
                raise InputError(f"the profile's {key} is {getattr(self, key)!r}; it must be true or false")
        self._check_epoch_interval()
        self._check_left_out()
        if not isinstance(self.metrics, Mapping):
            raise InputError(f"the profile's metrics are {self.metrics!r}; give metric -> statistic -> value")
        for name, statistics in self.metrics.items():
            _check_metric(name, statistics)

    def _check_epoch_interval(self) -> None:
        low, high = self.epoch_s_low, self.epoch_s_high
        if low is None and high is None:
            return
        if self.epoch_s is None or not (_is_duration(low) and _is_duration(high) and low <= self.epoch_s <= high):  # type: ignore[operator]
            raise InputError(
                f"the profile's epoch_s_low and epoch_s_high are {low!r} and {high!r} around epoch_s {self.epoch_s!r}; "
                "give 0 < low <= epoch_s <= high, or leave both out"
            )

    def _check_left_out(self) -> None:
        for key in ("step_s", "first_epoch_s"):
            value = getattr(self, key)
            if value is not None and not _is_duration(value):
                raise InputError(f"the profile's {key} is {value!r:.60}; it must be a number of seconds above 0, or null")
        if not _is_integer(self.stalls, 0, _LARGEST):
            raise InputError(f"the profile's stalls is {self.stalls!r:.60}; it must be a whole number, 0 or more")
        is_seconds = _is_number(self.stall_s) and (self.stall_s == 0 or _is_duration(self.stall_s))
        if not is_seconds or (self.stall_s > 0) != (self.stalls > 0):
            raise InputError(
                f"the profile's stall_s is {self.stall_s!r:.60} with {self.stalls} stalls; "
                "it must be a number of seconds above 0 with stalls, and 0 without"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the profile as JSON values under schema ``epochcast.profile/v1``."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in _LEFT_OUT:  # older profiles, and the fingerprints of models fitted on them, stay as they were
            if plain[name] is None or plain[name] is False:
                del plain[name]
        return {"schema": SCHEMA} | plain | {"metrics": {name: dict(values) for name, values in self.metrics.items()}}

    @classmethod
    def from_json(cls, data: object) -> "Profile":
        """Check JSON values of :meth:`to_json` and build the profile.

        Raises:
            InputError: another schema, a missing or unknown key, or a value that no profile can hold.
        """
        if not isinstance(data, Mapping):
            raise InputError(f"a profile is a JSON object, not {type(data).__name__}; write it with to_json")
        if data.get("schema") != SCHEMA:
            raise InputError(f"the profile's schema is {data.get('schema')!r}; this version reads {SCHEMA!r}")
        values = {key: value for key, value in data.items() if key != "schema"}
        known = set(cls.__dataclass_fields__)
        if unknown := sorted(set(values) - known):
            raise InputError(f"the profile has an unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")
        if missing := sorted(known - set(values) - _OPTIONAL):
            raise InputError(f"the profile lacks {', '.join(missing)}; write it with Profile.to_json")
        profile = cls(**values)
        if profile.feature_set != (held := feature_set(profile.metrics)):
            raise InputError(f"the profile has feature_set {profile.feature_set!r}, but its metrics are {held!r}; correct one")
        return profile


_LEFT_OUT = ("tensor_clock", "throttled", "held_idle_s", "type", "inference")
_OPTIONAL = {f.name for f in fields(Profile) if f.default is not MISSING}


def _is_number(value: object) -> bool:
    # A comparison, as math.isfinite overflows on a JSON integer of 400 digits; NaN compares false.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_integer(value: object, least: float, most: float) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_duration(value: object) -> bool:
    return _is_number(value) and 1 / _LARGEST <= value <= _LARGEST  # type: ignore[operator]


def _check_throttled(throttled: object) -> None:
    if throttled is None:
        return
    known = isinstance(throttled, Mapping) and set(throttled) <= set(THROTTLED.values())
    if not known or not all(_is_number(share) and 0 <= share <= 1 for share in throttled.values()):  # type: ignore[attr-defined]
        raise InputError(
            f"the profile's throttled is {throttled!r:.60}; give reason -> share of time from 0 to 1, or null; reasons are "
            f"{', '.join(THROTTLED.values())}"
        )


def _check_metric(name: str, statistics: object) -> None:
    if name not in METRICS:
        close = get_close_matches(str(name)[:LONGEST_NAME], METRICS, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(METRICS))}"
        raise InputError(f"unknown metric {name!r:.60} in the profile; {remedy}")
    if not isinstance(statistics, Mapping) or set(statistics) != set(STATISTICS):
        raise InputError(f"metric {name!r} holds {statistics!r}; it needs exactly {', '.join(STATISTICS)}")
    for statistic, value in statistics.items():
        if not _is_number(value) or abs(value) > _LARGEST:
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
