"""What ``epochcast occupancy-of`` tells of time: NVML utilisation and occupancy of a recording, as figures and drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ..backends.occupancy.launch.timeline import Timeline, bin_edges, recorded_span, timelines
from ..errors import InputError
from .tables import seconds_text

_Device = tuple[str, int | None]
SPAN_FIGURES = {
    "utilisation": "utilisation",
    "occupancy_of_the_span": "occupancy",
    "busy_occupancy": "busy_occupancy",
    "unknown_of_the_span": "unknown",
}
"""Names of the figures, and of a timeline's ratios that they are."""


def span_figures(rows: pd.DataFrame) -> tuple[Mapping[str, float | None], Mapping[_Device, Mapping[str, float]]]:
    """Figures from the first kernel's begin to the last one's end: means over the GPUs, and of each GPU.

    ``span_s``: seconds; ``utilisation``: share of them in which a kernel ran; ``occupancy_of_the_span`` counts idle time as 0,
    ``busy_occupancy`` leaves it out; ``unknown_of_the_span``: share in which no kernel of known occupancy ran beside others,
    which both leave out. All None where the format tells no times.
    """
    span = recorded_span(rows)
    if span is None:
        return {"span_s": None, **dict.fromkeys(SPAN_FIGURES)}, {}
    whole = timelines(rows, np.array(span))
    each = {device: {name: float(getattr(one, of)[0]) for name, of in SPAN_FIGURES.items()} for device, one in whole.items()}
    means = {name: _mean([one[name] for one in each.values()]) for name in SPAN_FIGURES}
    return {"span_s": span[1] - span[0], **means}, each


def draw_over_time(rows: pd.DataFrame, name: str, path: Path, width: float | None) -> None:
    """Draw each GPU, in bins of ``width`` seconds.

    Raises:
        InputError: the profile ``name`` tells no times, or bins would be too many.
    """
    from ..figures import save_figure
    from ..figures.occupancy import occupancy_over_time_figure

    span = recorded_span(rows)
    if span is None:
        raise InputError(f"{name!r} does not tell when its kernels ran; give --timeline a trace of PyTorch's profiler")
    whole = timelines(rows, np.array(span))
    drawn = timelines(rows, bin_edges(span, width))
    titles = {_title(device, whole[device], span[1] - span[0]): one for device, one in drawn.items()}
    save_figure(occupancy_over_time_figure(titles, "by launch configuration"), path)


def _title(device: _Device, whole: Timeline, seconds: float) -> str:
    gpu, number = device
    index = "" if number is None else f" ({number})"
    used, filled = 100 * whole.utilisation[0], 100 * whole.occupancy[0]
    return f"{gpu or 'GPU'}{index}, {seconds_text(seconds)}: NVML utilisation {used:.1f} %, occupancy {filled:.1f} %"


def _mean(values: list[float]) -> float | None:
    """Mean of those that are known."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None
