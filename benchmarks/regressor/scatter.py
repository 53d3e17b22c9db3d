"""The paper's Fig. 11: predicted against measured seconds by source GPU, of the paper's stack and of the default recipe.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.regressor.scatter [--keep DIR] [--write]

Without `--write` nothing is drawn; printed is the share of pairs within 10 and 20 % of the measured seconds, and how far long
epochs are off.
"""

from collections.abc import Iterator

import numpy as np

from epochcast.analyzer.figures import scatter_figure
from epochcast.regressor.recipes import RECIPES

from .public_pairs import REGRESSOR, PublicPairs, header, line, options, report

MODELS = ("paper", "default")
LONG_S = 30.0
DRAWN = {"P2": "new workload", "P3": "new architecture", "P4": "new GPU"}


def part(data: PublicPairs, write: bool) -> Iterator[str]:
    """Per protocol the shares and, if asked for, the picture."""
    pictures = []
    yield from header("protocol", "model", "within 10 %", "within 20 %", "n", f"predicted/measured above {LONG_S:.0f} s", "n")
    long = data.actual > LONG_S
    for protocol, meaning in DRAWN.items():
        predicted = {model: data.predicted(RECIPES[model](), protocol) for model in MODELS}
        for model, seconds in predicted.items():
            error = np.abs(seconds / data.actual - 1)
            shares = (f"{np.mean(error <= bound):.1%}" for bound in (0.1, 0.2))
            ratio = np.median(seconds[long] / data.actual[long])
            yield line(protocol, f"`{model}`", *shares, f"{error.size}", f"{ratio:.2f} (median)", f"{long.sum()}")
        if write:
            path = REGRESSOR.save_picture(
                scatter_figure(data.actual, predicted, data.sources, data.targets), f"scatter_{protocol.lower()}"
            )
            pictures.append(f"![{protocol}, {meaning}: predicted against measured seconds]({path})")
    for picture in pictures:
        yield from ("", picture)


if __name__ == "__main__":
    chosen = options(__doc__ or "")
    report("scatter", part(PublicPairs.load(chosen.keep), chosen.write), chosen)
