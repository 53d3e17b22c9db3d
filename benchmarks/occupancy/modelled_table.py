"""A table of modelled occupancies: random configurations of Table II's networks, for when there are no measured ones.

Run: python -m benchmarks.occupancy.modelled_table [--out FILE]

Eighteen configurations of each network are drawn once and modelled on an H200. The labels are `modelled`: nothing is measured,
and a predictor that is fitted on them learns the model of the launches. Columns are those of `points.py`; `epochcast
train|evaluate occupancy` and `epochcast simulate-packing` read it.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.graph_of import graph_of
from epochcast.analyzer.backends.occupancy.modelled_kernels import occupancy_of
from epochcast.analyzer.backends.occupancy.networks import NETWORKS, family
from epochcast.analyzer.backends.occupancy.points import COLUMNS, TARGETS, check_points
from epochcast.regressor import Gpu, load_catalog

from ..page import ROOT, options
from .random_configurations import different

RESULTS = ROOT / "benchmarks" / "results" / "modelled_occupancies.csv.gz"
PER_NETWORK = 18
GPU = "H200 SXM"


def configurations(per_network: int) -> Iterator[Configuration]:
    """So many different random ones of each network; the draw depends on the network alone."""
    for network in NETWORKS:
        yield from different(network, per_network, Random(f"0/{network}"))


def modelled(asked: Iterable[tuple[Configuration, Gpu]]) -> pd.DataFrame:
    """A row of :data:`COLUMNS` for each that fits into its GPU's memory."""
    return check_points(pd.DataFrame(list(_rows(asked)), columns=list(COLUMNS)), "the modelled table")


def _rows(asked: Iterable[tuple[Configuration, Gpu]]) -> Iterator[dict[str, Any]]:
    for configuration, gpu in asked:
        step = occupancy_of(graph_of(configuration), gpu, configuration.precision)
        if step.memory_bytes > gpu.memory:
            print(f"{configuration} does not fit into {gpu.name}", file=sys.stderr)
            continue
        yield {
            **asdict(configuration),
            "family": family(configuration.network),
            "gpu": gpu.name,
            "labels": "modelled",
            **{name: getattr(step, name) for name in (*TARGETS, "kernels", "step_s", "nvml_utilisation", "memory_bytes")},
        }


def main() -> None:
    """Model all rows and write them."""
    parser = options(__doc__, page=False)
    parser.add_argument("--out", type=Path, default=RESULTS, help="CSV or .csv.gz [default: %(default)s]")
    out, gpu = parser.parse_args().out, load_catalog().resolve(GPU)
    table = modelled((one, gpu) for one in configurations(PER_NETWORK))
    out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(out, index=False)
    print(f"{len(table)} modelled rows of {table['network'].nunique()} networks on an {gpu.name}: {out}")


if __name__ == "__main__":
    main()
