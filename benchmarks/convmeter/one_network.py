"""What a network's own points are worth: coefficients tuned to it alone (section 4.3), or its points among all others.

Run: python -m benchmarks.convmeter.one_network [--write]      (fills docs/convmeter.md, part one_network; about a minute)
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.points import read_points
from epochcast.analyzer.backends.convmeter.predictor import fit_predict
from epochcast.analyzer.cli.train.convmeter import FEWEST_OF_ONE
from epochcast.analyzer.errors import InputError

from .public_tables import write_part

POINTS = Path(__file__).parents[2] / "data/convmeter_cpu/points.csv.gz"
PHASES = ("inference", "step")
SMALL, LARGE = 64, 128

Mask = NDArray[np.bool_]
Folds = Callable[[pd.DataFrame], Iterator[tuple[Mask, Mask]]]
"""Which points are fitted on, and which are asked for by that fit."""


def main() -> None:
    """Print the table; --write puts it into docs/convmeter.md."""
    write_part("one_network", __doc__, lambda _: part())


def part() -> Sequence[str]:
    """Markdown of the part."""
    points = read_points(POINTS)
    points = points[points["block"] == ""].sample(frac=1, random_state=0).reset_index(drop=True)
    points = points[points.groupby("network")["batch"].transform("size") > FEWEST_OF_ONE].reset_index(drop=True)
    asked: dict[str, tuple[Folds, tuple[str, ...]]] = {
        "the others alone": (unseen, ("paper", "default")),
        "the others and its own": (own_among_others, ("paper", "default")),
        "its own alone": (own_alone, ("paper", "relative", "default")),
        f"the others, and its own at {SMALL} pixels; asked at {LARGE}": (smaller_among_others, ("default",)),
        f"its own at {SMALL} pixels alone; asked at {LARGE}": (smaller_alone, ("paper", "relative", "default")),
    }
    lines = [
        f"{points['network'].nunique()} networks with more than {FEWEST_OF_ONE} points each ({len(points)} in all) on one "
        "thread of a CPU; each point predicted by a fit that did not see it. MAPE in per cent:",
        "",
        "| fitted on | form | " + " | ".join(PHASES) + " |",
        "|" + "---|" * (len(PHASES) + 2),
    ]
    for name, (folds, forms) in asked.items():
        for form in forms:
            lines.append(f"| {name} | {form} | " + " | ".join(error(points, phase, form, folds) for phase in PHASES) + " |")
    return lines


def error(points: pd.DataFrame, phase: str, form: str, folds: Folds) -> str:
    """MAPE over the points that are asked for, and how many had no answer if any."""
    measured = points[f"{phase}_seconds"].to_numpy()
    errors, unanswered = [], 0
    for fitted, asked in folds(points):
        try:
            predicted = fit_predict(points[fitted], points[asked], phase, form)
        except InputError:  # a fold with too few points for the form
            unanswered += int(asked.sum())
            continue
        errors.append(100 * np.abs(predicted / measured[asked] - 1))
    if not errors:
        return "-"
    return f"{np.concatenate(errors).mean():.1f}" + (f" ({unanswered} without an answer)" if unanswered else "")


def unseen(points: pd.DataFrame) -> Iterator[tuple[Mask, Mask]]:
    """Leave one network out."""
    for own in _networks(points):
        yield ~own, own


def own_among_others(points: pd.DataFrame) -> Iterator[tuple[Mask, Mask]]:
    """Leave one point of each network out at a time."""
    number = points.groupby("network").cumcount().to_numpy()
    for one in range(number.max() + 1):
        yield number != one, number == one


def own_alone(points: pd.DataFrame) -> Iterator[tuple[Mask, Mask]]:
    """The same without the other networks."""
    for fitted, asked in own_among_others(points):
        for own in _networks(points):
            if (own & asked).any():
                yield own & fitted, own & asked


def smaller_among_others(points: pd.DataFrame) -> Iterator[tuple[Mask, Mask]]:
    """Larger images of one network, of which only smaller ones are fitted on beside all others."""
    large = (points["image_size"] == LARGE).to_numpy()
    for own in _networks(points):
        if (own & large).any():
            yield ~(own & large), own & large


def smaller_alone(points: pd.DataFrame) -> Iterator[tuple[Mask, Mask]]:
    """The same without the other networks."""
    for fitted, asked in smaller_among_others(points):
        own = (points["network"] == points["network"][asked].iloc[0]).to_numpy()
        yield own & fitted & (points["image_size"] == SMALL).to_numpy(), asked


def _networks(points: pd.DataFrame) -> Iterator[Mask]:
    for name in points["network"].unique():
        yield (points["network"] == name).to_numpy()


if __name__ == "__main__":
    main()
