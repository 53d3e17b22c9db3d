"""A figure with its 90 % interval."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A figure and the ends of its 90 % interval, in the unit that its owner says."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "Estimate":
        """As often, or for as long; the relative width stays."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def plus(self, other: "Estimate") -> "Estimate":
        """Both together, for estimates that err together: the ends add."""
        return Estimate(self.value + other.value, self.low + other.low, self.high + other.high)

    def to_json(self, name: str) -> dict[str, float]:
        """Return ``name``, ``name_low`` and ``name_high``."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}
