"""Why `default` weighs three forms: next to each alone, the best one by inner cross-validation, a weight blind to novelty.

Run: python -m lab.speed.convmeter.weighing [--write]      (part `weighing` of docs/convmeter.md)
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.forms.default import Default
from lab.evaluate.convmeter_protocols import figures, folds_of
from lab.speed.convmeter.public_tables import points_of
from lab.speed.page import CONVMETER, markdown_table, options, publish

WAYS = ("pooled", "corrected", "layers", "relative", "the best of three", "weighed", "weighed by novelty: `default`")
TIMM = {
    "timm, RTX 3090 inference": ("benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv", "inference"),
    "timm, RTX 3090 training": ("benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv", "step"),
    "timm, RTX 3090 inference, nhwc": ("benchmark-infer-amp-nhwc-pt240-cu124-rtx3090.csv", "inference"),
    "timm, RTX 3090 training, nhwc": ("benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv", "step"),
}


def lines() -> Iterator[str]:
    """MAPE of each way on the same rows."""
    rows = []
    for protocol in ("family", "architecture"):
        for name, (table, phase) in TIMM.items():
            rows.append((name, protocol, "1", *(f"{one:.1f}" for one in mapes(points_of(table), phase, protocol))))
    points = points_of("torchvision_step_times.csv.gz")
    cells = points[points["devices"] == 1].groupby(["device", "precision"])
    for protocol, left in (("family", "family"), ("model", "network")):
        errors = [mapes(cell, phase, protocol) for _, cell in cells for phase in ("inference", "step")]
        name, count = f"torchvision, 1 GPU, {len(errors)} cells", str(len(errors))
        rows.append((name, left, count, *(f"{one:.1f}" for one in np.mean(errors, axis=0))))
    yield from markdown_table(("MAPE %", "left out", "cells", *WAYS), rows)


def mapes(points: pd.DataFrame, phase: str, protocol: str) -> list[float]:
    """The mean error of each way over one table, every fold predicted by fits on the others."""
    asked = points[points[f"{phase}_seconds"] > 0].reset_index(drop=True)
    seconds, folds = asked[f"{phase}_seconds"].to_numpy(dtype=float), folds_of(asked, protocol)
    predicted = np.full((len(WAYS), len(asked)), np.nan)
    for fold in set(folds.tolist()):
        out = folds == fold
        predicted[:, out] = ways(Default(phase).fit(asked[~out], seconds[~out]), asked[out])
    return [figures(seconds, one).mape for one in predicted]


def ways(fitted: Default, asked: pd.DataFrame) -> NDArray[np.float64]:
    """Seconds by each of WAYS, from one fit; shape (ways, n)."""
    corrected = fitted.corrected.predict(asked)
    layers, relative = (other.predict(asked) for other in fitted.others.values())
    held = np.clip(layers, np.minimum(corrected, relative), np.maximum(corrected, relative))
    three = np.stack([corrected, held, relative])
    best, weighed = three[np.argmax(fitted.weights)], np.exp(fitted.weights @ np.log(three))
    return np.stack([fitted.corrected.pooled.predict(asked), corrected, layers, relative, best, weighed, fitted.predict(asked)])


if __name__ == "__main__":
    publish(CONVMETER, "weighing", lines(), write=options(__doc__).parse_args().write)
