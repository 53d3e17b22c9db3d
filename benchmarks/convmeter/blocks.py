"""Blocks of networks that were never fitted on (section 4.1.2), on one thread of a CPU; part `blocks` of docs/convmeter.md.

Run: python -m benchmarks.convmeter.blocks [--write]

The points are `data/convmeter_cpu/points.csv.gz`. A block is predicted by a fit without its network and without other blocks
of it: on the whole networks that are left, on the blocks that are left, and on both.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.evaluation import Answers, figures
from epochcast.analyzer.backends.convmeter.forms import FORMS
from epochcast.analyzer.backends.convmeter.known_metrics import known_metrics
from epochcast.analyzer.backends.convmeter.points import read_points
from epochcast.analyzer.backends.convmeter.predictor import fit_predict

from .public_tables import markdown_table, write_part

POINTS = Path(__file__).parents[2] / "data" / "convmeter_cpu" / "points.csv.gz"
PHASES = ("inference", "step")


def main() -> None:
    """Print the tables; --write puts them into docs/convmeter.md."""
    write_part("blocks", __doc__, lambda draw: list(lines()))


def lines() -> Iterator[str]:
    """Markdown of the part."""
    points = read_points(POINTS)
    is_block = (points["block"] != "").to_numpy()
    fits = {"networks": ~is_block, "blocks": is_block, "networks and blocks": np.ones(len(points), dtype=bool)}
    answers = {
        (phase, fitted_on, form): answer(points, phase, form, mask)
        for phase in PHASES
        for fitted_on, mask in fits.items()
        for form in FORMS
    }
    yield from markdown_table(
        ("blocks: MAPE % (R2)", "fitted on", "n", *FORMS),
        [
            (
                phase,
                fitted_on,
                str(answers[phase, fitted_on, "default"].figures.n),
                *(f"{one.mape:.1f} ({one.r2:.2f})" for form in FORMS for one in [answers[phase, fitted_on, form].figures]),
            )
            for phase in PHASES
            for fitted_on in fits
        ],
    )
    yield ""
    by = {form: answers["inference", "networks and blocks", form].by("called") for form in ("paper", "default")}
    yield from markdown_table(
        ("inference of a block", "n", *(f"{form}: {name}" for form in by for name in ("RMSE ms", "NRMSE", "MAPE %"))),
        [
            (
                called,
                str(figures.n),
                *(
                    text
                    for one in by.values()
                    for text in (f"{1e3 * one[called].rmse:.2f}", f"{one[called].nrmse:.2f}", f"{one[called].mape:.1f}")
                ),
            )
            for called, figures in by["default"].items()
        ],
    )


def answer(points: pd.DataFrame, phase: str, form: str, fitted_on: NDArray[np.bool_]) -> Answers:
    """Every block as a fit says that saw nothing of its network."""
    measured = points[f"{phase}_seconds"].to_numpy()
    usable = measured > 0
    asked = usable & (points["block"] != "").to_numpy()
    predicted = np.full(len(points), np.nan)
    for network in points["network"][asked].unique():
        own = (points["network"] == network).to_numpy()
        train, test = points[usable & fitted_on & ~own], points[asked & own]
        predicted[asked & own] = fit_predict(train.reset_index(drop=True), test.reset_index(drop=True), phase, form=form)
    table = known_metrics().drop_duplicates(["network", "block"]).set_index(["network", "block"])["block_name"]
    blocks = points[asked].reset_index(drop=True)
    called = [f"{table.get((row.network, row.block), row.block)} of {row.network}" for row in blocks.itertuples()]
    return Answers(
        blocks.assign(called=called), measured[asked], predicted[asked], blocks["network"].to_numpy(dtype=np.str_), figures
    )


if __name__ == "__main__":
    main()
