"""The answer for one target GPU, and its basis in two words; nothing heavy is imported here, for the service's page."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

# Routes of predictions that rest on measurements of both GPUs; the others take one of them, or both, from the data sheet.
_BOTH_MEASURED = frozenset({"measured", "scaled", "telemetry", "calibrated", "speeds", "stack"})

# Below, less than half of what was learnt from telemetry like this counts. By choice.
_LIKE_TRAINING = 0.5


@dataclass(frozen=True)
class Estimate:
    """A figure and the ends of its 90 % interval, in the unit of its owner."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "Estimate":
        """As often, or for as long; the relative width stays."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def plus(self, other: "Estimate") -> "Estimate":
        """Both together, for estimates that err together: the ends add."""
        return Estimate(self.value + other.value, self.low + other.low, self.high + other.high)


@dataclass(frozen=True)
class Prediction:
    """Latency on one GPU.

    Attributes:
        gpu: catalogue name of the target.
        ratio: target/source seconds.
        seconds: per epoch or step, in the unit of the profile; ``None`` if the profile has no epoch seconds.
        low, high: 90 % interval of ``seconds``, including that of the profile's own epoch; ``None`` if ``seconds`` is.
        why: the basis of the answer, one sentence.
        ratio_low, ratio_high: 90 % interval of ``ratio``.
        route: how it was answered, named by the recipe; ``measured`` for the source GPU itself, ``scaled`` for another number
            of source GPUs or another batch.
        support: 1 inside the training data, towards 0 outside (see ``Answers``).
        features: the metrics that the answer used.
        by_precision: precision -> ``ratio`` if the job computes in it; empty if the job's precision is known. ``ratio`` is
            between them.
        gpus: how many of ``gpu`` the job runs on, in each of its machines.
        batch: batch per target GPU over batch per source GPU.
        waits: the part of ``ratio`` in which the job waits for its checkpoints, the same on any GPU and any number of them.
        by_data_sheet: nothing was measured on one of the two GPUs, so that the answer relies on its data sheet.
    """

    gpu: str
    ratio: float
    seconds: float | None
    low: float | None
    high: float | None
    why: str
    ratio_low: float
    ratio_high: float
    route: str
    support: float
    features: tuple[str, ...]
    by_precision: Mapping[str, float] = field(default_factory=dict)
    gpus: int = 1
    batch: float = 1.0
    waits: float = 0.0
    by_data_sheet: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_data_sheet", self.route not in _BOTH_MEASURED)

    def changed(
        self, log_factor: float, half_width: float, *, why: str, gpus: int | None = None, batch: float | None = None
    ) -> "Prediction":
        """The answer for another number of GPUs or another batch.

        Args:
            log_factor: log of seconds with the change over seconds without, of what is no waiting.
            half_width: of the 90 % interval of ``log_factor``; independent of the answer's own, so squares add.
            why: what the change rests on.
            gpus, batch: what they are then; None: as before.
        """
        working = _working(self.ratio, self.waits, log_factor)
        # Only the working part of what comes out is uncertain by the change.
        width = half_width * (1 - min(self.waits / (self.ratio * working), 1.0))

        def ends(value: float, low: float, high: float) -> tuple[float, float]:
            below, above = math.hypot(math.log(value / low), width), math.hypot(math.log(high / value), width)
            return value * working * math.exp(-below), value * working * math.exp(above)

        ratio_low, ratio_high = ends(self.ratio, self.ratio_low, self.ratio_high)
        seconds, low, high = self.seconds, self.low, self.high
        if seconds is not None and low is not None and high is not None:
            low, high = ends(seconds, low, high)
            seconds *= working
        each = {name: ratio * _working(ratio, self.waits, log_factor) for name, ratio in self.by_precision.items()}
        return replace(
            self,
            ratio=self.ratio * working,
            seconds=seconds,
            low=low,
            high=high,
            ratio_low=ratio_low,
            ratio_high=ratio_high,
            by_precision=each,
            route="scaled" if self.route == "measured" else self.route,
            gpus=gpus or self.gpus,
            batch=batch or self.batch,
            why=f"{self.why}; {why}",
        )

    @property
    def basis(self) -> str:
        """``jobs like this`` or ``other jobs`` between the two GPUs, or a ``data sheet``."""
        if self.route == "measured":
            return "this GPU"
        if self.by_data_sheet:
            return "data sheet"
        return "other jobs" if self.route in ("speeds", "scaled") or self.support < _LIKE_TRAINING else "jobs like this"


def _working(ratio: float, waits: float, log_factor: float) -> float:
    """What a ratio is multiplied by if all of it changes but the waits."""
    fixed = min(waits / ratio, 1.0)
    return fixed + (1 - fixed) * math.exp(log_factor)
