"""Training time by precision and parallelism, out of memory marked, as in the distributed paper's Fig. 1."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.figure import Figure

from epochcast.analyzer.figures.style import BLUE, GREEN, ORANGE, drawing

Degrees = tuple[int, int, int]

# Colour and hatch of each precision, by turns: dense for FP32 and TF32, plain for 16 bit, striped for mixed.
_LOOKS = {
    "fp32": ("#4d4d4d", ""),
    "tf32": ("#a6a6a6", ""),
    "fp16": (BLUE, ""),
    "bf16": (GREEN, ""),
    "amp-fp16": (BLUE, "////"),
    "amp-bf16": (GREEN, "////"),
}


def precisions_figure(seconds: Mapping[tuple[Degrees, str], float | None], title: str) -> Figure:
    """One group of bars per (data, tensor, pipeline), one bar per precision.

    Args:
        seconds: of one iteration, by degrees and precision, in the order to be drawn; None: out of memory. What is missing has
            no bar.
        title: what was predicted.
    """
    strategies = list(dict.fromkeys(degrees for degrees, _ in seconds))
    precisions = list(dict.fromkeys(name for _, name in seconds))
    known = [value for value in seconds.values() if value is not None]
    milli = bool(known) and max(known) < 1
    scale, unit = (1e3, "ms") if milli else (1.0, "s")
    width = 0.84 / len(precisions)
    with drawing():
        figure = Figure(figsize=(max(6.4, 1.2 + 0.26 * len(precisions) * len(strategies)), 3.6), layout="constrained")
        axes = figure.subplots()
        for number, precision in enumerate(precisions):
            color, hatch = _LOOKS.get(precision, (ORANGE, ""))
            places = [group + (number - (len(precisions) - 1) / 2) * width for group in range(len(strategies))]
            heights = [scale * (seconds.get((degrees, precision)) or math.nan) for degrees in strategies]
            look = {"color": color} if not hatch else {"facecolor": "none", "edgecolor": color, "hatch": hatch}
            axes.bar(places, heights, 0.9 * width, label=precision, linewidth=0.8, **look)  # type: ignore[arg-type]
            for place, degrees in zip(places, strategies, strict=True):
                if seconds.get((degrees, precision), 0.0) is None:
                    axes.annotate(
                        "OOM",
                        (place, 0),
                        (0, 2),
                        textcoords="offset points",
                        rotation=90,
                        ha="center",
                        va="bottom",
                        fontsize=7,
                        color=color,
                    )
        axes.set_xticks(range(len(strategies)), [f"({d}, {t}, {p})" for d, t, p in strategies])
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(-0.6, len(strategies) - 0.4)
        axes.set_xlabel("degrees of data, tensor and pipeline parallelism")
        axes.set_ylabel(f"one iteration [{unit}]")
        axes.set_title(title, loc="left", parse_math=False)
        axes.grid(axis="x", visible=False)
        axes.set_axisbelow(True)
        figure.legend(loc="outside lower center", ncols=len(precisions))
        return figure
