"""Whether nine of ten networks of a family that nothing saw lie in the 90 % interval, and `default` next to its simpler forms.

Run: python -m lab.speed.convmeter.intervals [--write]      (part `intervals` of docs/convmeter.md)

A family leaves; the rest is fitted, and sets the interval by folds of its own. Errors of `default` and of a simpler form are
compared on the same rows, with a 90 % interval of the mean difference by drawing families again.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.forms.default import Default
from epochcast.regressor.scoring import absolute_percentage_errors, conformal_quantile
from lab.evaluate.convmeter_protocols import folds_of
from lab.speed.convmeter.public_tables import points_of, whole_networks
from lab.speed.convmeter.steps import TIMM
from lab.speed.convmeter.weighing import ways
from lab.speed.page import CONVMETER, markdown_table, options, publish

SIMPLER = ("pooled", "corrected", "layers", "relative")  # the first of ``weighing.WAYS``
_DRAWS = 2000


def tables() -> Iterator[tuple[str, pd.DataFrame, str, str]]:
    """Name, points of one device, phase and what is left out; torchvision's and CPUs' cells apart."""
    for name, table in TIMM.items():
        yield name, points_of(f"benchmark-{table}.csv"), "step" if "training" in name else "inference", "family"
    points = points_of("torchvision_step_times.csv.gz")
    points = points[(points["devices"] == 1) & (points["precision"] != "fp64")]
    for protocol, left in (("family", "family"), ("model", "network")):
        for phase in ("step", "inference"):
            for _, cell in points.groupby(["device", "precision"]):
                yield f"torchvision, 6 cells, {phase}, {left} left out", cell, phase, protocol
    for phase in ("inference", "forward", "backward", "update"):
        yield f"cpu_phases, {phase}, network left out", points_of("cpu_phases.csv"), phase, "model"
    for phase in ("inference", "forward", "backward", "update"):
        yield f"AMD EPYC thread, {phase}", whole_networks(), phase, "family"


def lines() -> Iterator[str]:
    """A row per table."""
    found: dict[str, list[pd.DataFrame]] = {}
    for name, points, phase, protocol in tables():
        found.setdefault(name, []).append(judged(points, phase, protocol))
    rows, all_inside = [], []
    for name, cells in found.items():
        table = pd.concat(cells, keys=range(len(cells)), names=["cell"]).reset_index("cell")
        all_inside.append(table["inside"])
        by_family = table.groupby(["cell", "fold"])["inside"].mean().mean()
        differences = [difference(table, form) for form in SIMPLER]
        rows.append(
            (
                name,
                str(len(table)),
                f"{table['default'].mean():.1f}",
                f"x {table['factor'].median():.2f}",
                f"{100 * table['inside'].mean():.0f} %",
                f"{100 * by_family:.0f} %",
                *differences,
            )
        )
    every = pd.concat(all_inside)
    header = ("family left out", "n", "MAPE %", "interval", "inside", "mean of families", *(f"less {one}" for one in SIMPLER))
    yield from markdown_table(header, rows)
    yield ""
    yield f"Of all {len(every)} rows {100 * every.mean():.1f} % are inside."


def judged(points: pd.DataFrame, phase: str, protocol: str) -> pd.DataFrame:
    """Per point: its fold, error in percent of `default` and the simpler forms, the interval and whether it holds."""
    asked = points[points[f"{phase}_seconds"] > 0].reset_index(drop=True)
    seconds, folds = asked[f"{phase}_seconds"].to_numpy(dtype=float), folds_of(asked, protocol)
    parts = []
    for fold in np.unique(folds):
        out = folds == fold
        fitted = Default(phase).fit(asked[~out].reset_index(drop=True), seconds[~out])
        predicted = ways(fitted, asked[out].reset_index(drop=True))
        half = conformal_quantile(fitted.errors[np.isfinite(fitted.errors)])
        errors = [absolute_percentage_errors(seconds[out], one) for one in predicted]
        part = pd.DataFrame({form: errors[number] for number, form in enumerate(SIMPLER)})
        inside = np.abs(np.log(seconds[out] / predicted[-1])) <= half
        parts.append(part.assign(fold=fold, default=errors[-1], factor=np.exp(half), inside=inside))
    return pd.concat(parts, ignore_index=True)


def difference(table: pd.DataFrame, form: str) -> str:
    """How much the mean error of `default` is above that of a form, and the ends when families are drawn again."""
    apart = (table["default"] - table[form]).groupby(table["fold"]).agg(["sum", "count"]).to_numpy()
    drawn: NDArray[np.int_] = np.random.default_rng(0).integers(0, len(apart), (_DRAWS, len(apart)))
    sums = apart[drawn].sum(axis=1)
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [0.05, 0.95])
    total = apart.sum(axis=0)
    return f"{total[0] / total[1]:+.1f} ({low:+.1f} to {high:+.1f})"


if __name__ == "__main__":
    publish(CONVMETER, "intervals", lines(), write=options(__doc__).parse_args().write)
