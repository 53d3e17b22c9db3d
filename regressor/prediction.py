"""The answer for one target GPU."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Prediction:
    """Latency on one GPU.

    Attributes:
        gpu: catalogue name of the target.
        ratio: target/source seconds.
        seconds: per epoch or step, in the unit of the profile; ``None`` where the profile has no epoch seconds.
        low, high: 90 % interval of ``seconds``, with the uncertainty of the profile's own epoch in it; ``None`` with it.
        why: what the answer rests on, one sentence.
        ratio_low, ratio_high: 90 % interval of ``ratio``.
        route: how it was answered, a name of the recipe's own; ``measured`` for the source GPU itself.
        support: 1 inside what training has seen, towards 0 outside (see ``Answers``).
        features: the metrics that the answer used.
        by_precision: precision -> ``ratio`` if the job computes in it; empty where the job's precision is known. ``ratio`` is
            between them.
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

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as JSON values."""
        return asdict(self) | {"features": list(self.features)}
