"""What a network's own points are worth: coefficients tuned to it alone, or its points among all others.

Run: python -m lab.speed.convmeter.one_network [--write]      (part `one_network` of docs/convmeter.md; about a minute)
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from lab.rivals.convmeter import fit_predict
from lab.speed.convmeter.public_tables import whole_networks
from lab.speed.page import CONVMETER, markdown_table, options, publish

ROWS = {
    "the others alone": ("paper", "default"),
    "the others and its own": ("paper", "default"),
    "its own alone": ("paper", "default"),
}
PHASES = ("inference", "step")
FEWEST_POINTS_OF_NETWORK = 6
"""With fewer, a disturbed point decides the coefficients of a network."""


def lines() -> Iterator[str]:
    """MAPE by what was fitted on and form."""
    points = whole_networks().sample(frac=1, random_state=0)
    points = points[points.groupby("network")["batch"].transform("size") > FEWEST_POINTS_OF_NETWORK].reset_index(drop=True)
    yield (
        f"{points['network'].nunique()} networks with more than {FEWEST_POINTS_OF_NETWORK} points each ({len(points)} in all) "
        "on one thread of a CPU; each point predicted by a fit that did not see it. MAPE in percent:"
    )
    yield ""
    rows = [
        (fitted_on, form, *(f"{error(points, phase, form, fitted_on):.1f}" for phase in PHASES))
        for fitted_on, forms in ROWS.items()
        for form in forms
    ]
    yield from markdown_table(("fitted on", "form", *PHASES), rows)


def error(points: pd.DataFrame, phase: str, form: str, fitted_on: str) -> float:
    """Percent, over all points; without the others one point of each network is left out at a time, else the whole network."""
    network = points["network"]
    number = points.groupby("network").cumcount()
    fold = {"the others alone": network, "the others and its own": number, "its own alone": network + number.astype(str)}
    measured = points[f"{phase}_seconds"].to_numpy()
    predicted = np.full(len(points), np.nan)
    for one in fold[fitted_on].unique():
        asked = fold[fitted_on] == one
        fitted = ~asked
        if fitted_on == "its own alone":
            fitted &= network == network[asked].iloc[0]
        predicted[asked] = fit_predict(points[fitted], points[asked], phase, form)
    return float(100 * np.abs(predicted / measured - 1).mean())


if __name__ == "__main__":
    publish(CONVMETER, "one_network", lines(), write=options(__doc__).parse_args().write)
