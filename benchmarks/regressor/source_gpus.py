"""The paper's Table IV: error by source GPU, of the paper's stack and of the default recipe.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.source_gpus [--keep DIR] [--write]
"""

from collections.abc import Iterator

import numpy as np

from epochcast.regressor.recipes import RECIPES
from epochcast.regressor.scoring import score

from .public_pairs import PROTOCOLS, PublicPairs, header, line, options, report

MODELS = ("paper", "default")

# Table IV, MAPE and R². Not in the public data: A100 10.50 (0.85) and A10 12.89 (0.84); not in the paper: P100.
CLAIMED = {"T4": "11.67 (0.83)", "A10G": "15.82 (0.83)", "V100 SXM2 16GB": "13.77 (0.84)"}


def table(data: PublicPairs) -> Iterator[str]:
    """One line per protocol and model: MAPE in percent and, in brackets, R² of the pairs out of each GPU."""
    gpus = sorted(set(data.sources))
    yield from header("protocol", "model", *gpus, "all")
    yield line("the paper", "its stack", *(CLAIMED.get(gpu, "–") for gpu in gpus), "11.7")
    for protocol in PROTOCOLS:
        for model in MODELS:
            predicted = data.predicted(RECIPES[model](), protocol)
            groups = [*(data.sources == gpu for gpu in gpus), np.full(len(data.pairs), True)]
            scores = [score(data.actual[rows], predicted[rows]) for rows in groups]
            yield line(protocol, f"`{model}`", *(f"{one.mape:.2f} ({one.r2:.2f})" for one in scores))
    yield line("n", "", *(f"{np.sum(data.sources == gpu)}" for gpu in gpus), f"{len(data.pairs)}")


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    report("source_gpus", table(PublicPairs.load(chosen.keep)), chosen)
