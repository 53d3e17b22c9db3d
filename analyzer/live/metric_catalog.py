"""Every metric that the analyzer exports: the table `metrics.toml`, read.

``python -m epochcast.analyzer.live.metric_catalog`` prints the table of docs/analyzer.md.
"""

from __future__ import annotations

import sys
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """One metric.

    ``name``: as on ``/metrics``. ``by``: ``detector`` is whoever detects the GPU's epochs, its node's analyzer or else the
    service.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    by: Literal["detector", "service", "both"]
    help: str


@cache
def catalog() -> dict[str, Metric]:
    """Return the metrics by name, in the order of the table."""
    table = tomllib.loads(files(__package__).joinpath("metrics.toml").read_text(encoding="utf-8"))
    return {name: Metric(name, row["kind"], tuple(row["labels"]), row["by"], row["help"]) for name, row in table.items()}


def markdown() -> str:
    """Return the table of docs/analyzer.md."""
    lines = [("metric", "kind", "labels", "exported by", "what it is"), ("---",) * 5]
    lines += [(f"`{m.name}`", m.kind, ", ".join(m.labels), m.by, m.help) for m in catalog().values()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(markdown())
