"""Fit the coefficients that come with Epochcast on vTrain's measured runs.

Run: python -m lab.speed.distributed.fit_coefficients [--write]
"""

from dataclasses import asdict, replace

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.fitted_model import SHIPPED, DistributedModel
from lab.distributed.runs import read_runs
from lab.distributed.saving import save_model
from lab.evaluate.distributed_protocols import RunEvaluator, by_split
from lab.speed.page import options, public


def main() -> None:
    """Print what was fitted next to what is believed; --write puts it into the shipped model."""
    parser = options(__doc__, page=False)
    parser.add_argument("--write", action="store_true", help="put them into the shipped model")
    write = parser.parse_args().write
    runs, evaluator = read_runs(public("distributed/vtrain_multi_node.csv")), RunEvaluator()
    fitted = evaluator.fit(runs)
    for name, value in asdict(fitted).items():
        print(f"{name:15} {value:.4g}  (believed {getattr(Coefficients(), name):.4g})")
    scores = by_split(evaluator, runs, runs).figures
    print(f"{len(runs)} runs, error on these very rows: mean {scores.mape:.1f} %, median {scores.median_ape:.1f} %")
    if write:
        gpus, precisions = (tuple(sorted(names)) for names in ({run.gpu for run in runs}, {run.job.precision for run in runs}))
        model = replace(
            DistributedModel.load(),
            coefficients=fitted,
            runs=len(runs),
            gpus=gpus,
            precisions=precisions,
            parameters=evaluator.parameters(runs),
        )
        save_model(model, SHIPPED)


if __name__ == "__main__":
    main()
