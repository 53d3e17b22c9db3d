"""Whether nine of ten networks of a family that nothing saw lie in the 90 % interval of `default`; part `intervals`.

Run: python -m lab.speed.convmeter.intervals [--write]      (docs/convmeter.md)

A family leaves; the rest is fitted, and sets the interval by folds of its own.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.convmeter.predictor import fit_form, left_out
from epochcast.regressor.scoring import absolute_percentage_errors, conformal_quantile
from lab.evaluate.convmeter_protocols import folds_of
from lab.speed.convmeter.public_tables import points_of, whole_networks
from lab.speed.convmeter.steps import TIMM
from lab.speed.page import CONVMETER, markdown_table, options, publish


def tables() -> Iterator[tuple[str, pd.DataFrame, str, str]]:
    """Name, points of one device, phase and what is left out; torchvision's and CPUs' cells apart."""
    for name, table in TIMM.items():
        yield name, points_of(f"benchmark-{table}.csv"), "step" if "training" in name else "inference", "family"
    points = points_of("torchvision_step_times.csv.gz")
    points = points[(points["devices"] == 1) & (points["precision"] != "fp64")]
    for phase in ("step", "inference"):
        for _, cell in points.groupby(["device", "precision"]):
            yield f"torchvision, 6 cells, {phase}", cell, phase, "family"
    for phase in ("inference", "forward", "backward", "update"):
        yield f"AMD EPYC thread, {phase}", whole_networks(), phase, "family"


def lines() -> Iterator[str]:
    """A row per table."""
    found: dict[str, list[pd.DataFrame]] = {}
    for name, points, phase, protocol in tables():
        found.setdefault(name, []).append(judged(points, phase, protocol))
    rows, every = [], pd.concat([one for cells in found.values() for one in cells])
    for name, cells in found.items():
        table = pd.concat(cells)
        inside = f"{100 * table['inside'].mean():.0f} %"
        rows.append((name, str(len(table)), f"{table['error'].mean():.1f}", f"x {table['factor'].median():.2f}", inside))
    yield from markdown_table(("family left out", "n", "MAPE %", "interval", "inside"), rows)
    yield ""
    yield f"Of all {len(every)} rows {100 * every['inside'].mean():.1f} % are inside."


def judged(points: pd.DataFrame, phase: str, protocol: str) -> pd.DataFrame:
    """Per point: its error in percent, the interval and whether it holds."""
    asked = points[points[f"{phase}_seconds"] > 0].reset_index(drop=True)
    folds, parts = folds_of(asked, protocol), []
    for fold in np.unique(folds):
        out, rest = asked[folds == fold].reset_index(drop=True), asked[folds != fold].reset_index(drop=True)
        measured, known = out[f"{phase}_seconds"].to_numpy(), rest[f"{phase}_seconds"].to_numpy()
        errors = np.log(known / left_out("default", phase, rest))
        half = conformal_quantile(errors[np.isfinite(errors)])
        predicted = fit_form("default", phase, rest).predict(out)
        inside = np.abs(np.log(measured / predicted)) <= half
        error = absolute_percentage_errors(measured, predicted)
        parts.append(pd.DataFrame({"error": error, "factor": np.exp(half), "inside": inside}))
    return pd.concat(parts)


if __name__ == "__main__":
    publish(CONVMETER, "intervals", lines(), write=options(__doc__).parse_args().write)
