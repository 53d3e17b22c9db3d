"""Why `default` weighs two forms: beside either alone, the better one by inner cross-validation, a weight blind to novelty.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.convmeter.weighing [--write]      (part `weighing` of docs/convmeter.md)
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.evaluation import figures, folds_of
from epochcast.analyzer.backends.convmeter.forms.default import Default

from .public_tables import markdown_table, points_of, write_part

Array = NDArray[np.float64]

WAYS = ("pooled", "corrected", "relative", "the better one", "weighed", "weighed by novelty: `default`")
TIMM = {
    "RTX 3090 inference": ("benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv", "inference"),
    "RTX 3090 training": ("benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv", "step"),
}


def main() -> None:
    """Print the table; --write puts it into docs/convmeter.md."""
    write_part("weighing", __doc__, lambda _: lines())


def lines() -> Sequence[str]:
    """Markdown of the part: MAPE of each way on the same rows."""
    rows = []
    for protocol, told in (("family", "family"), ("architecture", "architecture")):
        for name, (table, phase) in TIMM.items():
            found = _mapes(points_of(table), phase, protocol)
            rows.append((f"timm, {name}", told, "1", *(f"{one:.1f}" for one in found)))
    table = points_of("torchvision_step_times.csv.gz")
    one_gpu = table[table["devices"] == 1]
    for protocol, told in (("family", "family"), ("model", "network")):
        cells = [
            _mapes(cell, phase, protocol)
            for _, cell in one_gpu.groupby(["device", "precision"])
            for phase in ("inference", "step")
        ]
        rows.append(
            (
                f"torchvision, 1 GPU, {len(cells)} cells",
                told,
                str(len(cells)),
                *(f"{one:.1f}" for one in np.mean(cells, axis=0)),
            )
        )
    header = ("MAPE %", "left out", "cells", *WAYS)
    return markdown_table(header, [tuple(row) for row in rows])


def _mapes(points: pd.DataFrame, phase: str, protocol: str) -> list[float]:
    """The mean error of each way over one table, every fold predicted by fits on the others."""
    asked = points[points[f"{phase}_seconds"] > 0].reset_index(drop=True)
    seconds, folds = asked[f"{phase}_seconds"].to_numpy(dtype=float), folds_of(asked, protocol)
    predicted = np.full((len(WAYS), len(asked)), np.nan)
    for fold in sorted(set(folds.tolist())):
        out = folds == fold
        predicted[:, out] = _ways(Default(phase).fit(asked[~out], seconds[~out]), asked[out])
    return [figures(seconds, one).mape for one in predicted]


def _ways(fitted: Default, asked: pd.DataFrame) -> Array:
    """Seconds by each of WAYS, from one fit; shape (ways, n)."""
    corrected = fitted.corrected.predict(asked)
    relative = corrected if fitted.relative is None else fitted.relative.predict(asked)
    better = relative if fitted.caution > 0.5 else corrected
    weighed = np.exp((1 - fitted.caution) * np.log(corrected) + fitted.caution * np.log(relative))
    return np.stack([fitted.corrected.pooled.predict(asked), corrected, relative, better, weighed, fitted.predict(asked)])


if __name__ == "__main__":
    main()
