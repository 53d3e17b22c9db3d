"""Fit the operator times of the shipped model to NeuSight's five public GPUs, and put them into it.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.distributed.fit_operators [--out FOLDER]
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.distributed.fitted_model import SHIPPED, FittedModel
from epochcast.analyzer.backends.distributed.operator_time.corpus import read_corpus
from epochcast.analyzer.backends.distributed.operator_time.fitting import fit_operators
from epochcast.regressor import load_catalog

DATA = Path(os.environ.get("EPOCHCAST_SHARED", Path(__file__).parents[3] / "shared")) / "data" / "distributed"


def public_operators() -> pd.DataFrame:
    """The measured operators of all five files, 78 479 rows."""
    catalog = load_catalog()
    return pd.concat([read_corpus(file, catalog) for file in sorted(DATA.glob("neusight_ops_*.csv.gz"))], ignore_index=True)


def main() -> None:
    """Fit and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    out = parser.parse_args().out
    corpus = public_operators()
    replace(FittedModel.load(), operators=fit_operators(corpus, load_catalog())).save(out)
    print(f"{len(corpus)} operators of {corpus['gpu'].nunique()} GPUs, {sum(f.stat().st_size for f in out.iterdir())} bytes")


if __name__ == "__main__":
    main()
