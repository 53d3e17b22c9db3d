"""Pictures of a recommendation as `epochcast recommend --plot` draws it, and the paper's Fig. 1 from predictions.

    EPOCHCAST_SHARED=../shared python -m lab.speed.regressor.recommendation_pictures

Writes docs/images/recommendation/*.png and prints the lines that show them. They are pictures of the output, not of accuracy:
the shipped model was trained on these workloads. How good its advice is for new ones: regret.py.
"""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from epochcast.analyzer.charts import (
    BLUE,
    ORANGE,
    cost_figure,
    cost_interval,
    drawing,
    plain_log_axis,
    short_name,
    time_interval,
)
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.prices import load_instances
from epochcast.analyzer.jobs.rank import rank_instances
from epochcast.analyzer.jobs.whole_job import Work, whole_job
from epochcast.regressor import LatencyPredictor, Profile, load_catalog
from epochcast.regressor.prediction import Estimate
from lab.corpora import load_corpus
from lab.speed.page import RECOMMENDATION, options
from lab.speed.regressor.public_pairs import DATA

SOURCE = "T4"
WORK = Work(epochs=90)
# A network that leaves a GPU idle and one that fills it, as in the paper's Fig. 1.
WORKLOADS = {"small": "LeNet5|32|64", "large": "VGG19|16|224"}


def draw(size: str, profile: Profile) -> None:
    """Draw the bars of a workload, and the front of the large one."""
    catalog = load_catalog()
    instances, _ = load_instances(None, catalog)
    predictions = LatencyPredictor.load().predict(profile)
    rows, _ = rank_instances(predictions, instances, catalog, job_of=lambda one: whole_job(profile, one, WORK))
    what = f"{WORK.epochs} epochs of {profile.workload} seen on {SOURCE}, {len(instances)} instances"
    if size == "large":
        print(f"![{what}: time against cost]({RECOMMENDATION.save_picture(cost_figure(rows), 'front')})\n")
    bars = RECOMMENDATION.save_picture(relative_figure(rows, SOURCE), f"relative_{size}")
    print(f"![{what}: relative time and cost by GPU]({bars})\n")


_WHISKER = "0.45"  # seen on light and dark pages, and on the bars
_ALPHA = 0.75


def relative_figure(recommendations: Sequence[Placement], source_gpu: str) -> Figure:
    """Relative time (a) and cost (b) of each GPU on log axes, fastest first, with 90 % intervals; 1 is the best of the panel.

    A GPU's bar is that of its cheapest instance, which is named. ``source_gpu`` is marked by its colour, the best by a star.
    """
    cheapest: dict[str, Placement] = {}
    for row in sorted(recommendations, key=lambda row: cost_interval(row).value):
        cheapest.setdefault(row.instance.gpu, row)
    rows = sorted(cheapest.values(), key=lambda row: time_interval(row).value, reverse=True)
    with drawing():
        figure = Figure(figsize=(10, 1.4 + 0.24 * len(rows)), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        _relative_panel(panels[0], rows, time_interval, source_gpu)
        _relative_panel(panels[1], rows, cost_interval, source_gpu)
        panels[0].set_yticks(range(len(rows)), [row.instance.gpu for row in rows], parse_math=False)
        panels[0].set_ylim(-0.7, len(rows) - 0.3)
        panels[0].set_xlabel("(a) time relative to the fastest (★)")
        panels[1].set_xlabel("(b) cost relative to the cheapest (★)")
        names = panels[1].secondary_yaxis("right")
        names.set_yticks(range(len(rows)), [short_name(row) for row in rows], parse_math=False)
        names.tick_params(length=0)
        names.spines[:].set_visible(False)
        marks: dict[str, Artist] = {"90 % interval": Line2D([], [], color=_WHISKER, linewidth=1)}
        if source_gpu in cheapest:
            marks[f"{source_gpu}, where it was measured"] = Patch(color=ORANGE, alpha=_ALPHA)
        figure.legend(list(marks.values()), list(marks), loc="outside lower left", ncols=len(marks))
        return figure


def _relative_panel(axes: Axes, rows: Sequence[Placement], interval: Callable[[Placement], Estimate], source_gpu: str) -> None:
    best = min(interval(row).value for row in rows)
    shown = [interval(row).times(1 / best) for row in rows]
    values = np.array([estimate.value for estimate in shown])
    ends = np.array([(estimate.value - estimate.low, estimate.high - estimate.value) for estimate in shown]).T
    colors = [ORANGE if row.instance.gpu == source_gpu else BLUE for row in rows]
    axes.barh(range(len(rows)), values - 1, left=1, height=0.62, color=colors, alpha=_ALPHA)
    axes.errorbar(values, range(len(rows)), xerr=ends, fmt="none", ecolor=_WHISKER, elinewidth=1, capsize=2)
    number = int(values.argmin())
    axes.plot(1, number, "*", color=colors[number], markersize=9)
    plain_log_axis(axes.xaxis, "×")
    axes.grid(axis="y", visible=False)
    axes.set_axisbelow(True)


if __name__ == "__main__":
    options(__doc__, page=False).parse_args()
    measured = {profile.workload: profile for profile in load_corpus(DATA) if profile.gpu == SOURCE}
    for name, workload in WORKLOADS.items():
        draw(name, measured[workload])
