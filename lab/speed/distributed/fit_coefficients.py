"""Fit the coefficients that come with Epochcast on vTrain's measured runs.

Run: python -m lab.speed.distributed.fit_coefficients [--write]
"""

from dataclasses import asdict, replace

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.fitted_model import SHIPPED, DistributedModel
from lab.distributed.fit import fit_coefficients
from lab.distributed.runs import read_runs
from lab.distributed.saving import save_model
from lab.speed.page import options, public


def main() -> None:
    """Print what was fitted next to what is believed; --write puts it into the shipped model."""
    parser = options(__doc__, page=False)
    parser.add_argument("--write", action="store_true", help="put them into the shipped model")
    write = parser.parse_args().write
    model, answer = fit_coefficients(read_runs(public("distributed/vtrain_multi_node.csv")))
    for name, value in asdict(model.coefficients).items():
        print(f"{name:15} {value:.4g}  (believed {getattr(Coefficients(), name):.4g})")
    errors = f"mean {answer['in_sample_mape']:.1f} %, median {answer['in_sample_median_ape']:.1f} %"
    print(f"{answer['rows']} runs, error on these very rows: {errors}")
    if write:
        save_model(replace(model, operators=DistributedModel.load().operators), SHIPPED)


if __name__ == "__main__":
    main()
