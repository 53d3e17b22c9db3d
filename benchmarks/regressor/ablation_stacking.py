"""The paper's Fig. 12: its stack against random forest, CatBoost and HistGradientBoosting alone, on the same folds.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.ablation_stacking [--keep DIR] [--write]

Beside them the plain mean of the stack's two members, and the default recipe. "The stack's MAPE beside it" is the change that
stacking brings, with a 90 % bootstrap interval over workloads: pairs of one workload are not independent.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.recipes import RECIPES, PaperRecipe

from .public_pairs import FIGURES, PROTOCOLS, PublicPairs, header, line, options, report

STACK = "paper"
MODELS = (STACK, "random-forest", "catboost", "hist-gradient-boosting", "forest-catboost-mean", "default")

# Section IV-C, on Fig. 12: 11.17, "16.7% over CatBoost, 20.2% over random forest, and 32% over HistGradientBoosting".
CLAIMED = {"random-forest": "−20.2 %", "catboost": "−16.7 %", "hist-gradient-boosting": "−32 %"}

RESAMPLES = 4000


class InOrder(PaperRecipe):
    """The stack with scikit-learn's default inner folds: in the order of the pairs, so that each leaves whole models out."""

    def _regressor(self) -> Any:
        return super()._regressor().set_params(cv=self.cv)


def change(data: PublicPairs, stack: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Relative change of MAPE from ``other`` to ``stack`` in percent, and the 5 % and 95 % points over resampled workloads."""
    errors = np.abs(np.column_stack([stack, other]) / data.actual[:, None] - 1)
    _, workload = np.unique(data.workloads, return_inverse=True)
    per_workload = np.zeros((workload.max() + 1, 2))
    np.add.at(per_workload, workload, errors)
    drawn = np.random.default_rng(0).multinomial(len(per_workload), [1 / len(per_workload)] * len(per_workload), RESAMPLES)
    sums = drawn @ per_workload
    changes = 100 * (sums[:, 0] / sums[:, 1] - 1)
    whole = errors.sum(axis=0)
    return float(100 * (whole[0] / whole[1] - 1)), np.quantile(changes, [0.05, 0.95])


def table(data: PublicPairs) -> Iterator[str]:
    """One line per model and protocol."""
    yield from header("protocol", "model", *FIGURES, "the stack's MAPE beside it", "the paper's claim")
    for protocol in PROTOCOLS:
        stack = data.predicted(RECIPES[STACK](), protocol)
        for model in MODELS:
            predicted = stack if model == STACK else data.predicted(RECIPES[model](), protocol)
            beside = "–"
            if model != STACK:
                percent, (low, high) = change(data, stack, predicted)
                beside = f"{percent:+.1f} % ({low:+.1f} to {high:+.1f})".replace("-", "−")
            yield line(protocol, f"`{model}`", *data.figures(predicted, protocol), beside, CLAIMED.get(model, "–"))
        if protocol == "P2":
            predicted = data.predicted(InOrder(), protocol)
            yield line(protocol, f"`{STACK}`, inner folds in order", *data.figures(predicted, protocol), "–", "–")


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    report("ablation_stacking", table(PublicPairs.load(chosen.keep)), chosen)
