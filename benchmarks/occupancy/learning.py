"""How the error on networks that were left out falls with more to learn from; part `learning` of docs/occupancy.md.

Labels are those of modelled_table.py unless another table is given.

Run: python -m benchmarks.occupancy.modelled_table
     python -m benchmarks.occupancy.learning [--data FILE] [--write]
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from epochcast.analyzer.backends.occupancy.evaluation import PROTOCOLS
from epochcast.analyzer.backends.occupancy.label_files import read_any
from epochcast.analyzer.backends.occupancy.labelled_samples import LabelledSamples, labelled_samples
from epochcast.analyzer.backends.occupancy.learning_curve import CurvePoint, learning_curve
from epochcast.analyzer.backends.occupancy.models import make
from epochcast.regressor import load_catalog

from ..page import OCCUPANCY, markdown_table
from .modelled_table import RESULTS

MODELS = ("operator-mean", "boosting", "nearest")
FOLDS = 3
DRAWS = 2
SEED = 0


def main() -> None:
    """Print the tables; --write puts them into docs/occupancy.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=RESULTS, help="labels [default: %(default)s]")
    parser.add_argument("--write", action="store_true", help="fill docs/occupancy.md")
    options = parser.parse_args()
    lines = list(_lines(labelled_samples(read_any(options.data), load_catalog())))
    print("\n".join(lines))
    if options.write:
        OCCUPANCY.fill("learning", lines)


def _lines(data: LabelledSamples) -> Iterator[str]:
    splits = PROTOCOLS["model"](data.points, FOLDS, SEED)
    curves = {name: learning_curve(data, "mean", partial(make, name, seed=SEED), splits, DRAWS, SEED)[0] for name in MODELS}
    yield (
        f"Labels: {data.labels}; {len(data.samples)} rows, {FOLDS} groups of networks left out, {DRAWS} draws per size. MRE % "
        "and its standard deviation over draws:"
    )
    for by in ("configurations", "networks"):
        sizes = [point.size for point in next(iter(curves.values())) if point.by == by]
        rows = [(f"`{name}`", *(_cell(curve, by, size) for size in sizes)) for name, curve in curves.items()]
        yield ""
        yield from markdown_table((f"{by} fitted on", *map(str, sizes)), rows)


def _cell(curve: list[CurvePoint], by: str, size: int) -> str:
    found = [point for point in curve if point.by == by and point.size == size]
    if not found:
        return ""
    return f"{found[0].mre:.1f}" + (f" ± {found[0].spread:.1f}" if found[0].draws > 1 else "")


if __name__ == "__main__":
    main()
