"""The metric catalogue: ``metrics.toml`` as frozen dataclasses."""

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

Tier = Literal["fast", "slow", "rare", "derived"]
Kind = Literal["gauge", "counter"]
Scope = Literal["gpu", "host"]
# A family of a metric on /metrics: its newest value, mean, minimum and maximum over the window, integral of a ratio over time.
Part = Literal["last", "avg", "min", "max", "seconds"]
PARTS: tuple[Part, ...] = ("last", "avg", "min", "max", "seconds")

# Base-unit suffixes as Prometheus wants them in a name; "" has none: a count, or a column outside the catalogue.
UNIT_SUFFIX = {
    "ratio": "ratio",
    "bytes": "bytes",
    "bytes/s": "bytes_per_second",
    "W": "watts",
    "J": "joules",
    "Hz": "hertz",
    "°C": "celsius",
    "1/s": "per_second",
    "lanes": "lanes",
    "": "",
}


@dataclass(frozen=True)
class Metric:
    """One column of a trace.

    ``unit`` is a key of `UNIT_SUFFIX`; ``dcgm`` is the DCGM field id and ``gpm`` the NVML GPM metric id, where there is one;
    ``event`` is its bit among the clocks event reasons; ``paper`` is the short name in the black-box paper's tables.
    ``shown``: its families on ``/metrics`` by default. ``least``, ``most``: the bounds of what can be true.
    """

    name: str
    unit: str
    tier: Tier
    help: str
    paper: str | None = None
    dcgm: int | None = None
    gpm: int | None = None
    event: int | None = None
    kind: Kind = "gauge"
    scope: Scope = "gpu"
    shown: tuple[Part, ...] = ("last",)
    least: float = -math.inf
    most: float = math.inf

    @property
    def parts(self) -> tuple[Part, ...]:
        """Return the families that it can have."""
        if self.kind == "counter":
            return ("last",)
        return PARTS if self.unit == "ratio" else PARTS[:-1]

    @property
    def prometheus(self) -> str:
        """Name of the last value on ``/metrics``, without the ``_total`` that the exposition adds to counters."""
        return "_".join(part for part in ("epochcast", self.scope, self.name, UNIT_SUFFIX[self.unit]) if part)


@cache
def catalog() -> dict[str, Metric]:
    """Return the metrics of ``metrics.toml`` by name, in the file's order."""
    content = tomllib.loads(files(__package__).joinpath("metrics.toml").read_text(encoding="utf-8"))
    rows, bounds = content["metric"], content["bounds"]
    metrics = {}
    for row in rows:
        least, most = bounds[row["unit"] or "none"]
        shown = tuple(row.get("shown", ()))
        metrics[row["name"]] = Metric(**{"least": least, "most": most, **row, "shown": shown})
    if len(metrics) != len(rows):
        raise ValueError("metrics.toml names a metric twice")
    return metrics


def read_metrics() -> dict[str, Metric]:
    """Return the metrics that sources read, without those derived from them."""
    return {name: metric for name, metric in catalog().items() if metric.tier != "derived"}
