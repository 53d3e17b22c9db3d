"""Throughput against batch of networks that were never fitted on, also for batches larger than any that was (Fig. 9).

Run: python -m benchmarks.convmeter.batches [--write]      (fills docs/convmeter.md, part batches; one thread of a CPU)
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from epochcast.analyzer.backends.convmeter.points import read_points
from epochcast.analyzer.figures.scaling import ScalingCurve, scaling_figure

from .one_network import POINTS
from .public_tables import PAGE, write_part
from .scaling import FORMS, Seconds, left_out, mean_error, step_errors

IMAGE_SIZE = 128
NETWORKS = 8


def main() -> None:
    """Print the table; --write puts it and the picture into docs/convmeter.md."""
    write_part("batches", __doc__, part)


def part(draw: bool) -> Sequence[str]:
    """Markdown of the part; ``draw`` also writes its picture."""
    points = read_points(POINTS)
    points = points[(points["block"] == "") & (points["step_seconds"] > 0)].reset_index(drop=True)
    largest = points["batch"].max()
    smaller = (points["batch"] < largest).to_numpy()
    lines = [
        f"Steps of {points['network'].nunique()} networks on one thread of a CPU, each network left out, batch "
        f"{largest:.0f}; MAPE in per cent:",
        "",
        "| form | other networks up to this batch | other networks at smaller batches alone |",
        "|---|---|---|",
    ]
    predicted: Seconds = np.full(len(points), np.nan)
    for form in FORMS:
        predicted, beyond = left_out(points, form), left_out(points, form, smaller)
        figures = [mean_error(step_errors(points, one)[~smaller]) for one in (predicted, beyond)]
        lines.append(f"| {form} | " + " | ".join(figures) + " |")
    if draw:
        link = PAGE.save_picture(picture(points, predicted), "batches")
        lines += ["", f"![Throughput of {NETWORKS} networks by batch, measured and predicted by {FORMS[-1]}]({link})"]
    return lines


def picture(points: pd.DataFrame, predicted: Seconds) -> Figure:
    """Networks with the most batches at one size of the image, in the order of their names."""
    own = points.assign(predicted=predicted)[points["image_size"] == IMAGE_SIZE].sort_values(["network", "batch"])
    most = own.groupby("network")["batch"].nunique().sort_values(ascending=False, kind="stable").index[:NETWORKS]
    curves = []
    for name in sorted(most):
        rows = own[own["network"] == name]
        batch = rows["batch"].to_numpy()
        measured, guess = (batch / rows[column].to_numpy() for column in ("step_seconds", "predicted"))
        curves.append(ScalingCurve(name, batch, guess, measured=measured))
    return scaling_figure(curves, "batch")


if __name__ == "__main__":
    main()
