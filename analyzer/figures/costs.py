"""What instances cost and how long they take."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullFormatter

from ..recommendation import Recommendation
from .style import BLUE, ORANGE, drawing


def cost_figure(recommendations: Sequence[Recommendation]) -> Figure:
    """Time against cost of every instance, log axes; named are those that none beats in both, the rest are dots."""
    priced = [
        (r.seconds.value, r.usd.value, r.instance.name) for r in recommendations if r.seconds is not None and r.usd is not None
    ]
    with drawing():
        figure = Figure(figsize=(10, 4.6), layout="constrained")
        axes = figure.subplots()
        best = [p for p in priced if not any(q[0] <= p[0] and q[1] <= p[1] and q[:2] != p[:2] for q in priced)]
        best.sort()
        axes.plot([p[0] for p in priced], [p[1] for p in priced], "o", color=BLUE, markersize=5, alpha=0.6)
        axes.plot([p[0] for p in best], [p[1] for p in best], "D--", color=ORANGE, markersize=6, linewidth=1)
        for number, (seconds, usd, name) in enumerate(best):
            # Above and below by turns, so that neighbours' names do not touch; below them no instance can be.
            place, side = ((7, 5), "left") if number % 2 == 0 else ((-7, -11), "right")
            axes.annotate(name, (seconds, usd), xytext=place, textcoords="offset points", ha=side)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(EngFormatter(unit="s"))
        axes.xaxis.set_minor_formatter(EngFormatter(unit="s"))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} USD")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.margins(x=0.2, y=0.12)
        axes.set_xlabel("time (diamonds: no other instance is both faster and cheaper)")
        axes.set_ylabel("cost")
        return figure
