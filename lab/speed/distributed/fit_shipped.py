"""Fit the shipped model: operator times on all measured operators, efficiencies on all public runs.

Run: python -m lab.speed.distributed.fit_shipped [--write]
"""

from dataclasses import asdict

from epochcast.analyzer.backends.distributed.fitted_model import SHIPPED, Coefficients
from epochcast.regressor import load_catalog
from lab.distributed.fit import fit_coefficients, save_model
from lab.distributed.fitting import fit_operators
from lab.distributed.public_operators import read_operators
from lab.distributed.runs import public_runs
from lab.speed.page import options


def main() -> None:
    """Print what was fitted next to what is believed; --write puts it next to the code."""
    parser = options(__doc__, page=False)
    parser.add_argument("--write", action="store_true", help="put it into the shipped model")
    write, catalog = parser.parse_args().write, load_catalog()
    corpus = read_operators(catalog)
    operators = fit_operators(corpus, catalog)
    model, answer = fit_coefficients(public_runs(), operators)
    for name, value in asdict(model.coefficients).items():
        print(f"{name:10} {value:.4g}  (believed {getattr(Coefficients(), name):.4g})")
    errors = f"mean {answer['in_sample_mape']:.1f} %, median {answer['in_sample_median_ape']:.1f} %"
    print(
        f"{len(corpus)} operators of {corpus['gpu'].nunique()} GPUs; {answer['rows']} runs, error on these very rows: {errors}"
    )
    if write:
        save_model(model, SHIPPED)


if __name__ == "__main__":
    main()
