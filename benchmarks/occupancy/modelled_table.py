"""A table of modelled occupancies: random configurations of Table II's networks, for when there are no measured ones.

Run: python -m benchmarks.occupancy.modelled_table [--out FILE] [--per-network 18] [--gpu "H200 SXM"]… [--seed 0]

Each configuration is drawn once and modelled on every GPU; those that do not fit into a GPU's memory are left out there. The
labels are `modelled`: nothing is measured, and a predictor that is fitted on them learns the model of the launches. Columns are
those of `points.py`; `epochcast train|evaluate occupancy` and `epochcast simulate-packing` read it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd

from epochcast.analyzer.backends.occupancy.configuration import Configuration
from epochcast.analyzer.backends.occupancy.graph_of import graph_of
from epochcast.analyzer.backends.occupancy.launch.kernel_table import Aggregate
from epochcast.analyzer.backends.occupancy.measurement.plan import different
from epochcast.analyzer.backends.occupancy.measurement.points_file import label_row
from epochcast.analyzer.backends.occupancy.modelled_kernels import occupancy_of
from epochcast.analyzer.backends.occupancy.networks import NETWORKS
from epochcast.analyzer.backends.occupancy.points import COLUMNS, check_points
from epochcast.regressor import Gpu, load_catalog

RESULTS = Path(__file__).parents[1] / "results" / "modelled_occupancies.csv.gz"


def main() -> None:
    """Model all rows and write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS, help="CSV or .csv.gz [default: %(default)s]")
    parser.add_argument("--per-network", type=int, default=18, help="configurations [default: %(default)s]")
    parser.add_argument("--gpu", action="append", help="of the catalogue, several times for several [default: H200 SXM]")
    parser.add_argument("--seed", type=int, default=0, help="of the draw [default: %(default)s]")
    options = parser.parse_args()
    gpus = [load_catalog().resolve(name) for name in options.gpu or ["H200 SXM"]]
    table = modelled_table(gpus, options.per_network, options.seed)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False)
    print(f"{len(table)} modelled rows of {table['network'].nunique()} networks on {len(gpus)} GPU(s): {options.out}")


def modelled_table(gpus: list[Gpu], per_network: int, seed: int) -> pd.DataFrame:
    """Rows of :data:`COLUMNS`."""
    rows = [
        row
        for network in NETWORKS
        for configuration in configurations(network, per_network, seed)
        for row in modelled_rows(configuration, gpus)
    ]
    return check_points(pd.DataFrame(rows, columns=list(COLUMNS)), "the modelled table")


def configurations(network: str, count: int, seed: int) -> list[Configuration]:
    """So many different random configurations; the draw depends on the seed and the network alone."""
    return different(network, count, Random(f"{seed}/{network}"))


def modelled_rows(configuration: Configuration, gpus: list[Gpu]) -> Iterator[dict[str, Any]]:
    """One for each GPU whose memory holds it."""
    graph = graph_of(configuration)
    for gpu in gpus:
        step = occupancy_of(graph, gpu, configuration.precision)
        if step.memory_bytes > gpu.memory:
            print(f"{configuration} does not fit into {gpu.name}", file=sys.stderr)
            continue
        yield {
            **label_row(configuration, gpu.name, "modelled", Aggregate(step.mean, step.time_mean, step.max), step.kernels),
            **{name: getattr(step, name) for name in ("step_s", "nvml_utilisation", "memory_bytes")},
        }


if __name__ == "__main__":
    main()
