"""Fit the operator times of the shipped model to NeuSight's five public GPUs, and put them into it.

Run: python -m lab.speed.distributed.fit_operators [--out FOLDER]
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.distributed.fitted_model import SHIPPED, DistributedModel
from epochcast.regressor import load_catalog
from lab.distributed.fitting import fit_operators
from lab.distributed.neusight import read_corpus
from lab.distributed.saving import save_model
from lab.speed.page import options, public

FAMILIES = ("bmm", "elem", "linear", "ln", "softmax")


def public_operators() -> pd.DataFrame:
    """The measured operators of all five files, 78 479 rows."""
    catalog = load_catalog()
    files = [public(f"distributed/neusight_ops_{family}.csv.gz") for family in FAMILIES]
    return pd.concat([read_corpus(file, catalog) for file in files], ignore_index=True)


def main() -> None:
    """Fit and save."""
    parser = options(__doc__, page=False)
    parser.add_argument("--out", type=Path, default=SHIPPED, help="[default: next to the code]")
    out, corpus = parser.parse_args().out, public_operators()
    save_model(replace(DistributedModel.load(), operators=fit_operators(corpus, load_catalog())), out)
    print(f"{len(corpus)} operators of {corpus['gpu'].nunique()} GPUs, {sum(f.stat().st_size for f in out.iterdir())} bytes")


if __name__ == "__main__":
    main()
