"""When a GPU is held but idle: the agent's column and the analyzer's seconds go by this one rule."""

from typing import Any

HELD_BYTES = 2.0**30
"""A GPU with less memory in use counts as free. By choice: drivers keep up to 0.7 GB for themselves, a training takes more."""

LEAST_ACTIVITY = 0.01
"""Below this nothing runs: NVML gives utilisation in whole per cent."""

ACTIVITY = ("gr_engine_active", "gpu_utilization")
"""Of the first that there is: how busy the GPU is."""


def held_idle(memory_used: Any, activity: Any) -> Any:
    """Return 1 where memory is held and nothing runs, else 0, and NaN where either is not known.

    Args:
        memory_used: bytes, a float or an array of floats.
        activity: 0..1, of the first metric of `ACTIVITY`, in the same shape.
    """
    unknown = 0 * (memory_used + activity)  # 0 or NaN; numpy is not for every user of this file
    return ((memory_used >= HELD_BYTES) & (activity < LEAST_ACTIVITY)) + unknown
