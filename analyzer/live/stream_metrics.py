"""Which of a GPU's metrics its epochs are looked for in: few, as each costs memory and time, and the prompt ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.signals import of_the_job

MOST = 6
"""Metrics of a stream; each takes 0.2 MB."""

# What shows epochs best comes first: memory traffic (paper, section IV-B), then what differs from it when a job loads data,
# validates or writes a checkpoint. From `gpu_utilization` on they are of sources without profiling metrics.
PREFERENCE = (
    "dram_active",
    "sm_active",
    "pcie_rx",
    "power",
    "tensor_active",
    "gr_engine_active",
    "nvlink_rx",
    "pcie_tx",
    "gpu_utilization",
    "memory_utilization",
    "memory_used",
    "power_average",
    "process_write",
    "process_cpu_utilization",
    "process_minor_faults",
    "process_context_switches",
    "cpu_utilization",
    "rss",
)

# A metric that is read so much less often than another lags behind what happens (as for the tracker, methods/track/grid.py).
_SLOWER = 2.5


def chosen(values: Mapping[str, NDArray[np.float64]]) -> tuple[str, ...]:
    """Names of at most `MOST` metrics, by preference; those read seldom only where fewer than two are prompt.

    Args:
        values: name -> (n,) the first seconds of samples, NaN where there is no reading.
    """
    readings = {name: int(np.isfinite(column).sum()) for name, column in values.items()}
    read = {name: count for name, count in readings.items() if count}
    # A trace of anything has names of its own.
    ranked = of_the_job([name for name in PREFERENCE if name in read]) or sorted(read)
    most = max((read[name] for name in ranked), default=0)
    prompt = [name for name in ranked if _SLOWER * read[name] >= most]
    return tuple((prompt if len(prompt) >= 2 else ranked)[:MOST])
