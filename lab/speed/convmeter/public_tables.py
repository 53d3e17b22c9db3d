"""Tables of measured ConvNets, what forms say of networks that were left out, and errors as the paper's tables have them."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.metrics import read_points
from lab.convmeter_tables import read_all
from lab.evaluate.convmeter_protocols import Answers, cross_validate
from lab.rivals.convmeter import FORMS, fit_predict
from lab.speed.page import ROOT, markdown_table, public

OWN = ROOT / "data" / "convmeter_cpu"
ON_A_CPU = tuple(form for form in FORMS if form != "paleo")  # which needs a GPU's data sheet
BOTH = ("paper", "default")


@cache
def points_of(name: str, *, convnets_only: bool = True) -> pd.DataFrame:
    """Points of a public table."""
    table = public(f"convnets/{name}")
    counted, families = table.with_name("timm_layer_features.csv.gz"), table.with_name("timm_families.csv")
    return read_all([table], counted, families, convnets_only=convnets_only).points


def whole_networks(name: str = "points.csv.gz") -> pd.DataFrame:
    """Points of a table of our own, one thread of a CPU, without the blocks."""
    points = read_points(OWN / name)
    return points[points["block"] == ""].reset_index(drop=True)


def left_out(
    points: pd.DataFrame,
    phase: str,
    form: str,
    protocol: str = "model",
    seen: Callable[[pd.DataFrame], NDArray[np.bool_]] | None = None,
) -> Answers:
    """Each point as a fit says that its fold was left out of; ``seen``: which of the other points are fitted on, shape (n,)."""

    def fit(train: pd.DataFrame, test: pd.DataFrame, phase: str) -> NDArray[np.float64]:
        if seen is not None:
            train = train[seen(train)].reset_index(drop=True)
        return fit_predict(train, test, phase, form=form)

    return cross_validate(points, phase, fit, protocol)


def errors_by(answers: Mapping[str, Answers], column: str, title: str, unit: str = "s") -> Iterator[str]:
    """RMSE, NRMSE and MAPE of forms by the values of a column, as Tables 1 to 3 of the paper have them; ``unit`` s or ms."""
    by = {form: one.by(column) for form, one in answers.items()}
    scale, digits = {"s": (1, 3), "ms": (1e3, 2)}[unit]
    header = (title, "n", *(f"{form}: {name}" for form in by for name in (f"RMSE {unit}", "NRMSE", "MAPE %")))
    rows = []
    for value, figures in by["default"].items():
        row = [value, str(figures.n)]
        for one in by.values():
            row += [f"{scale * one[value].rmse:.{digits}f}", f"{one[value].nrmse:.2f}", f"{one[value].mape:.1f}"]
        rows.append(row)
    yield from markdown_table(header, rows)
