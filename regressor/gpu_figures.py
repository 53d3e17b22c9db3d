"""What a figure of a GPU's data sheet can be: a user's own file is mostly wrong by a unit, and then the remedy is known."""

from typing import Annotated, Any

from epochcast.regressor.profile import Count


class Figure:
    """Refuses a number that no GPU has; 0 stands for "has none". Marks a field that pydantic, loaded later, checks.

    Args:
        low, high: bounds, base unit.
        unit: for the message.
        factors: from other units to the base unit, the likelier first.
    """

    def __init__(self, low: float, high: float, unit: str, **factors: float) -> None:
        self._low, self._high, self._unit, self._factors = low, high, unit, factors

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def _check(self, value: float) -> float:
        low, high, unit = self._low, self._high, self._unit
        if value == 0 or low <= value <= high:
            return value
        likely = [(other, factor) for other, factor in self._factors.items() if low <= value * factor <= high]
        remedy = "it looks like {}, multiply by {:,g}".format(*likely[0]) if likely else "check the source"
        raise ValueError(f"outside {low:g} to {high:g}{unit and f' {unit}'}; {remedy}")


# Wide enough for the GPUs of the next decade; a figure outside is a slip, and a silent one would shift every answer. All bounds
# are by choice.
Capability = Annotated[float, Figure(1, 30, "", **{"the form 86": 0.1})]
Number = Annotated[Count, Figure(1, 1e6, "")]
Clock = Annotated[float, Figure(2e8, 3e10, "Hz", MHz=1e6, GHz=1e9, kHz=1e3)]
Memory = Annotated[Count, Figure(5e8, 4e12, "bytes", GiB=2**30, MiB=2**20)]
Bandwidth = Annotated[float, Figure(5e9, 1e14, "bytes/s", **{"GB/s": 1e9, "TB/s": 1e12})]
BusWidth = Annotated[Count, Figure(32, 65_536, "bits", bytes=8)]
Power = Annotated[float, Figure(5, 5000, "W", kW=1e3, mW=1e-3)]
Cache = Annotated[Count, Figure(1024, 1e10, "bytes", KiB=1024, MiB=1_048_576)]
Rate = Annotated[float, Figure(1e9, 1e18, "FLOP/s", **{"TFLOP/s": 1e12, "GFLOP/s": 1e9})]
Pcie = Annotated[Count, Figure(1, 64, "")]
