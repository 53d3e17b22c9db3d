"""Occupancy and utilisation over time as the hardware counts them, from a trace of the agent; no kernel is known by it.

What ``launch/timeline.py`` calculates from launch configurations, the metrics ``sm_occupancy`` and ``gpu_utilization`` (or
``gr_engine_active``) measure. A reading counts for the time since the one before it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.gpu_trace import SCHEMA
from epochcast.analyzer.traces.trace import Trace
from lab.kernels.timeline import OccupancyTimeline

OCCUPANCY = "sm_occupancy"
UTILISATION = ("gpu_utilization", "gr_engine_active")
"""The first is NVML's own; the second, of the graphics and compute engine, replaces it if only that was read."""

_HOLE = 10.0  # times the usual pause between readings: what was before then is not known


_BEGINS = (b"PAR1", f'# {{"schema": "{SCHEMA}"'.encode())
"""A Parquet file, and a CSV file by this product."""


def is_trace(path: Path) -> bool:
    """Whether the file is a trace rather than a profile, by its first bytes."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(max(map(len, _BEGINS))).startswith(_BEGINS)


def counted_answer(trace: Trace, name: str) -> dict[str, Any]:
    """Means over the trace from the file ``name``, under the names that a profile's have."""
    metric = utilisation_metric(trace, name)
    timeline = counted_timeline(trace, metric)
    mean = float(timeline.occupancy[0])
    return {
        "format": f"trace of epochcast-agent, {'simulated' if trace.simulated else 'counted by the hardware'}",
        "gpu": trace.gpu,
        "mean": mean,
        "max": float(trace.frame[OCCUPANCY].max()),
        "kernels": [],
        "span_s": timeline.seconds,
        "utilisation": float(timeline.utilisation[0]),
        "utilisation_metric": metric,
        "occupancy_of_the_span": mean,
    }


def utilisation_metric(trace: Trace, name: str) -> str:
    """Which of :data:`UTILISATION` the trace from the file ``name`` holds.

    Raises:
        InputError: the trace does not hold two readings of one of them, or of :data:`OCCUPANCY`.
    """
    read = [metric for metric in trace.metric_names if trace.frame[metric].notna().sum() > 1]
    if OCCUPANCY not in read:
        raise InputError(
            f"{name!r} holds no readings of {OCCUPANCY!r} over time; record it with an agent using DCGM, or on Hopper or later"
        )
    for metric in UTILISATION:
        if metric in read:
            return metric
    raise InputError(f"{name!r} holds no readings of {' or '.join(map(repr, UTILISATION))} over time; record one of them too")


def counted_timeline(trace: Trace, utilisation: str, bins: int = 1) -> OccupancyTimeline:
    """Means over bins between the first and the last reading of :data:`OCCUPANCY`, of the metric ``utilisation`` too.

    NaN where nothing was read. ``unknown`` is 0: what runs does not matter to a counter.
    """
    times = trace.time[trace.frame[OCCUPANCY].notna()]
    edges = np.linspace(times[0], times[-1], bins + 1)
    used, filled = (bin_means(trace.time, trace.metrics([name])[name], edges) for name in (utilisation, OCCUPANCY))
    busy = np.divide(filled, used, out=np.full_like(used, np.nan), where=used > 0)
    return OccupancyTimeline(edges, used, np.zeros_like(used), filled, np.minimum(busy, 1.0))


def bin_means(time: NDArray[np.float64], readings: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of each bin over the time that readings (NaN: none at that time) count for; NaN where they count for none of it."""
    read = np.isfinite(readings)
    time, values = time[read], readings[read][1:]
    pauses = np.diff(time)
    counted = np.where(pauses <= _HOLE * np.median(pauses), pauses, 0.0)
    total, seconds = (
        np.diff(np.interp(edges, time, np.append(0.0, np.cumsum(weights)))) for weights in (values * counted, counted)
    )
    means: NDArray[np.float64] = np.divide(
        total, seconds, out=np.full_like(total, np.nan), where=seconds > 1e-9 * np.diff(edges)
    )
    return means
