"""The answer for one target GPU."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Prediction:
    """Latency on one GPU.

    Attributes:
        gpu: catalogue name of the target.
        ratio: target/source seconds.
        seconds: per epoch or step, in the unit of the profile; ``None`` where the profile has no epoch seconds.
        low, high: 90 % interval of ``seconds``; ``None`` with it.
        why: what the answer rests on, one sentence.
    """

    gpu: str
    ratio: float
    seconds: float | None
    low: float | None
    high: float | None
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as JSON values."""
        return asdict(self)
