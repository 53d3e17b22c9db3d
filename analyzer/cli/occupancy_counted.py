"""What ``epochcast occupancy-of`` tells of a trace that the agent recorded: occupancy as the hardware counted it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..backends.occupancy.counted_occupancy import OCCUPANCY, counted_span, counted_timeline, utilisation_metric
from ..backends.occupancy.launch.timeline import bin_edges
from ..traces.trace import SCHEMA, read_trace
from .tables import seconds_text

_BEGINS = (b"PAR1", f'# {{"schema": "{SCHEMA}"'.encode())
"""A Parquet file, and a CSV file by this product."""


def is_trace(path: Path) -> bool:
    """Whether the file is a trace rather than a profile, by its first bytes; standard input and missing files are none."""
    try:
        with path.open("rb") as file:
            return file.read(max(map(len, _BEGINS))).startswith(_BEGINS)
    except OSError:
        return False


def counted_answer(path: Path, picture: Path | None, width: float | None) -> dict[str, Any]:
    """Means over the trace, under the names that a profile's have; drawn over time in bins of ``width`` seconds.

    Raises:
        InputError: the trace is damaged or lacks a metric, or bins would be too many.
    """
    trace = read_trace(path)
    metric = utilisation_metric(trace, str(path))
    span = counted_span(trace)
    whole = counted_timeline(trace, metric, np.array(span))
    used, filled = float(whole.utilisation[0]), float(whole.occupancy[0])
    counted = "simulated" if trace.simulated else "counted by the hardware"
    if picture is not None:
        from ..figures import save_figure
        from ..figures.occupancy import occupancy_over_time_figure

        title = (
            f"{trace.gpu or 'GPU'}, {seconds_text(span[1] - span[0])}: {metric} {_percent(used)}, occupancy {_percent(filled)}"
        )
        drawn = counted_timeline(trace, metric, bin_edges(span, width))
        save_figure(occupancy_over_time_figure({title: drawn}, counted), picture)
    return {
        "format": f"trace of epochcast-agent, {counted}",
        "gpu": trace.gpu,
        "mean": filled,
        "max": float(trace.frame[OCCUPANCY].max()),
        "kernels": [],
        "span_s": span[1] - span[0],
        "utilisation": used,
        "utilisation_metric": metric,
        "occupancy_of_the_span": filled,
    }


def counted_sentences(answer: Mapping[str, Any]) -> str:
    """The answer for people."""
    return (
        f"{answer['gpu'] or 'GPU'}: {seconds_text(answer['span_s'])} ({answer['format']})\n"
        f"a kernel ran {_percent(answer['utilisation'])} of it ({answer['utilisation_metric']});"
        f" warp slots were filled {_percent(answer['mean'])} of it ({OCCUPANCY}), {_percent(answer['max'])} at most"
    )


def _percent(ratio: float) -> str:
    return "-" if math.isnan(ratio) else f"{100 * ratio:.1f} %"
