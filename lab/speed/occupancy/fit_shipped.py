"""Fit the model of occupancy that comes with Epochcast on the public tables of trainings.

Run: python -m lab.speed.occupancy.fit_shipped [--write]
"""

import sys

from epochcast.analyzer.backends.occupancy import SHIPPED
from epochcast.regressor import load_catalog
from lab.occupancy.fitting import fit_predictor
from lab.occupancy.models import save_predictor
from lab.occupancy.training_jobs import read_training_jobs
from lab.speed.page import options, public

TABLES = ("occupancy/measured_cnn.csv.gz", "occupancy/measured_mlp.csv.gz")


def main() -> None:
    """Print what was fitted; --write puts it into the package."""
    parser = options(__doc__, page=False)
    parser.add_argument("--write", action="store_true", help="put it into the package")
    write = parser.parse_args().write
    jobs = read_training_jobs([public(table) for table in TABLES], load_catalog())
    predictor = fit_predictor(jobs, progress=lambda line: print(line, file=sys.stderr))
    for label, errors in predictor.fitted.errors.items():
        print(
            f"{label:13} {predictor.fitted.rows[label]} rows, {errors.mape:.1f} % on other architectures, x {errors.factor:.2f}"
        )
    if write:
        save_predictor(predictor, SHIPPED)
        print(f"{sum(file.stat().st_size for file in SHIPPED.iterdir()) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
