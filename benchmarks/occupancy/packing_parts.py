"""What the scripts of the packing simulation share: where configurations come from, and how a part of the page is written."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from epochcast.analyzer.backends.occupancy.packing.experiment import Mean
from epochcast.analyzer.backends.occupancy.packing.job_kinds import JobKind, job_kinds
from epochcast.analyzer.backends.occupancy.packing.slowdown import ASSUMED, MeasuredSlowdown, Slowdown
from epochcast.analyzer.gpu_scripts.occupancy_bench import read_colocation
from epochcast.regressor import load_catalog

from ..page import OCCUPANCY
from ..page import markdown_table as markdown_table

PAGE = OCCUPANCY
ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "data/h200/occupancy_bench/occupancy.csv"
MODELLED = ROOT / "benchmarks/results/modelled_occupancies.csv.gz"
COLOCATION = ROOT / "data/h200/occupancy_bench/colocation.csv"
GAVEL = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data/occupancy/gavel_pairs.csv.gz"

GPUS = 4
"""As many as the paper has."""
RUNS = 100
SEED = 0


@dataclass(frozen=True)
class Workload:
    """What jobs are drawn from, and what it is in words; ``memory`` of a GPU in bytes."""

    kinds: Sequence[JobKind]
    told: str
    memory: float


def workload(path: Path | None, gpu: str, occupancy: str = "mean") -> Workload:
    """Configurations that fit the GPU: measured where there are any, else modelled; says so and stops where there are none."""
    if path is None:
        path = MEASURED if MEASURED.exists() else MODELLED
    if not path.exists():
        sys.exit(f"{path} is not there; make it with benchmarks/occupancy/modelled_table.py --gpu {gpu} --out {path}")
    catalog = load_catalog()
    named = catalog.resolve(gpu)
    table = job_kinds(path, catalog, named, occupancy)
    kinds = [kind for kind in table.kinds if kind.memory <= named.memory]
    told = f"{len(kinds)} configurations with {table.labels} occupancies on {named.name}"
    return Workload(kinds, told, float(named.memory))


def curves() -> dict[str, Slowdown]:
    """All slowdown curves; the measured one where co-location was recorded."""
    measured = {"measured": MeasuredSlowdown.fit(read_colocation(COLOCATION))} if COLOCATION.exists() else {}
    return {**ASSUMED, **measured}


def write_part(part: str, description: str | None, lines: Callable[[argparse.Namespace], Sequence[str]]) -> None:
    """Print the lines of a part of docs/occupancy.md; with --write put them there (``lines`` is told to draw too)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fill docs/occupancy.md")
    parser.add_argument("--configurations", type=Path, help="[default: those measured in data/, else modelled]")
    parser.add_argument("--gpu", default="H200 SXM", help="of the configurations [default: %(default)s]")
    options = parser.parse_args()
    content = lines(options)
    print("\n".join(content))
    if options.write:
        PAGE.fill(part, content)


def with_interval(mean: Mean, scale: float = 1.0, digits: int = 1) -> str:
    """A mean with half of its 95 % interval."""
    return f"{scale * mean.mean:.{digits}f} ± {scale * (mean.high - mean.mean):.{digits}f}"
