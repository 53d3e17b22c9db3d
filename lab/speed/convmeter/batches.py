"""Throughput against batch of networks that were never fitted on, also for batches larger than any that was; part `batches`.

Run: python -m lab.speed.convmeter.batches [--write]      (Fig. 9 of the paper, on one thread of a CPU)
"""

from collections.abc import Iterator

from matplotlib.figure import Figure

from epochcast.analyzer.charts import chart_figure
from epochcast.analyzer.plugins.chart import Chart, Line
from lab.evaluate.convmeter_protocols import Answers
from lab.speed.convmeter.public_tables import BOTH, left_out, whole_networks
from lab.speed.page import CONVMETER, markdown_table, options, publish

IMAGE_SIZE = 128
NETWORKS = 8


def lines(draw: bool) -> Iterator[str]:
    """The table; ``draw`` also writes the picture."""
    points = whole_networks()
    largest = points["batch"].max()
    yield (
        f"Steps of {points['network'].nunique()} networks on one thread of a CPU, each network left out, batch "
        f"{largest:.0f}; MAPE in percent:"
    )
    yield ""
    rows = []
    for form in BOTH:
        answer = left_out(points, "step", form)
        beyond = left_out(points, "step", form, seen=lambda train: (train["batch"] < largest).to_numpy())
        asked = (answer.points["batch"] == largest).to_numpy()
        rows.append((form, *(f"{one.only(asked).figures.mape:.1f}" for one in (answer, beyond))))
    yield from markdown_table(("form", "other networks up to this batch", "other networks at smaller batches alone"), rows)
    if draw:
        yield ""
        link = CONVMETER.save_picture(picture(answer), "batches")
        yield f"![Throughput of {NETWORKS} networks by batch, measured and predicted by {form}]({link})"


def picture(answer: Answers) -> Figure:
    """Networks with the most batches at one size of the image, in the order of their names."""
    points = answer.points.assign(measured=answer.measured, predicted=answer.predicted)
    own = points[points["image_size"] == IMAGE_SIZE].sort_values(["network", "batch"])
    most = own.groupby("network")["batch"].nunique().sort_values(ascending=False, kind="stable").index[:NETWORKS]
    panels = {}
    for name in sorted(most):
        rows = own[own["network"] == name]
        batches = rows["batch"].tolist()
        panels[name] = [Line(column, batches, (rows["batch"] / rows[column]).tolist()) for column in ("predicted", "measured")]
    return chart_figure(Chart(panels, "batch", "images per second"))


if __name__ == "__main__":
    write = options(__doc__).parse_args().write
    publish(CONVMETER, "batches", lines(write), write=write)
