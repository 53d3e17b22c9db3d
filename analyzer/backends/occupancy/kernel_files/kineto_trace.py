"""Traces of PyTorch's profiler (Kineto), ``torch.profiler.profile.export_chrome_trace``: Chrome's trace format, JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ....errors import InputError
from ..launch.gpu_limits import Figures, GpuLimits, limits_by_capability
from ..launch.kernel_table import START, kernel_table
from .kernel_file import KernelFile

NAME = "PyTorch profiler trace"

_ESTIMATE = ("est. achieved occupancy %", "theoretical occupancy %")  # the second until PyTorch 1.9
_PROPERTIES = ("deviceProperties", "computeProperties")  # the second until PyTorch 1.9, with other names of these:
_OLDER_NAMES = {
    "major": "computeMajor",
    "minor": "computeMinor",
    "multiProcessorCount": "numSms",
    "maxThreadsPerMultiProcessor": "maxThreadsPerMultiprocessor",
}
_COPIES = {"gpu_memcpy", "gpu_memset", "memcpy", "memset"}
_KEPT = {"kernel", *_COPIES}
_NOT_KNOWN = (math.nan, math.nan, math.nan)
_RECORD = "record it with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"


def recognises(text: str) -> bool:
    """Whether it is JSON by its first character."""
    return text.lstrip()[:1] in ("{", "[")


def read(text: str, name: str) -> KernelFile:
    """The kernels of a trace; of copies between memories and events of the CPU nothing is kept.

    Kernels without grid and block, or with zeros (some of CUDA graphs), have no launch configuration in the table; they kept
    the GPU busy all the same.

    Raises:
        InputError: it is not such a trace, is truncated, or holds no kernel of an NVIDIA GPU with its launch configuration.
    """
    properties, events = _content(text, name)
    gpus = _gpus(properties, name)
    copies = 0
    rows = []
    for event in events:
        if not isinstance(event, dict):
            continue
        category = str(event.get("cat", "")).lower()
        copies += category in _COPIES
        if category == "kernel":
            rows.append(_row(event, gpus))
    if not rows:
        raise InputError(
            f"{name!r} holds no kernel: nothing ran on a GPU while it was recorded, or the CPU alone was; {_RECORD}"
        )
    table = kernel_table(**{column: [row[column] for row in rows] for column in rows[0]})
    if table["grid_x"].isna().all():
        raise InputError(f"{name!r} holds {len(rows)} kernels, none with its grid and block; {_RECORD}")
    table[START] = (table[START] - table[START].min()) / 1e6  # not the other way round: a clock since 1970 fills a float
    if table[START].isna().all():
        table = table.drop(columns=START)
    limits = {gpu.name: gpu for gpu in gpus.values()}
    return KernelFile(NAME, table, limits, {"memory_copy": copies} if copies else {})


def _content(text: str, name: str) -> tuple[list[Any], list[Any]]:
    """Device properties and events."""
    try:
        trace = json.loads(text, strict=False, object_hook=_without_the_cpu)
    except json.JSONDecodeError as error:
        if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated"):
            raise InputError(
                f"{name!r} ends in the middle of its JSON (line {error.lineno}); let the profiler finish, or copy it again"
            ) from error
        raise InputError(
            f"{name!r} is not JSON: {error.msg} in line {error.lineno}; give a trace as the profiler wrote it"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name!r} is not a trace: {type(error).__name__}; give one as the profiler wrote it") from error
    if isinstance(trace, list):
        return [], trace
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list):
        raise InputError(f"{name!r} is JSON without a list 'traceEvents'; give a trace of PyTorch's profiler")
    properties = [one for name in _PROPERTIES if isinstance(trace.get(name), list) for one in trace[name]]
    return properties, events


def _without_the_cpu(value: dict[str, Any]) -> dict[str, Any] | None:
    """None for events that are not of a GPU: they are most of a trace, and would take several times its size."""
    category = value.get("cat")
    return value if category is None or str(category).lower() in _KEPT else None


def _gpus(properties: Sequence[Any], name: str) -> dict[int, GpuLimits]:
    """The GPUs of which the trace tells enough, by index; different ones have different names."""
    gpus: dict[int, GpuLimits] = {}
    for one in properties:
        if not isinstance(one, dict):
            continue
        title = str(one.get("name", "")).strip() or "unnamed GPU"
        if one.get("warpSize", 32) != 32 or title.startswith("AMD"):
            raise InputError(f"{name!r} was recorded on {title!r}; occupancy is calculated for NVIDIA GPUs alone")
        figures = {_OLDER_NAMES.get(key, key): int(value) for key, value in one.items() if _is_number(value) and value >= 0}
        if not {"numSms", "computeMajor", "computeMinor"} <= set(figures):
            continue
        sm_count, number = figures["numSms"], figures.get("id", len(gpus))
        capability = figures["computeMajor"] + figures["computeMinor"] / 10
        threads = figures.get("maxThreadsPerMultiprocessor")
        known = Figures(
            max_warps=None if threads is None else threads // 32,
            registers=figures.get("regsPerMultiprocessor"),
            registers_per_block=figures.get("regsPerBlock"),
            shared_memory=figures.get("sharedMemPerMultiprocessor"),
            shared_memory_per_block=figures.get("sharedMemPerBlockOptin"),
        )
        limits = limits_by_capability(title, capability, sm_count, known)
        if any(other.name == title and other != limits for other in gpus.values()):  # parts of one GPU, say
            limits = limits_by_capability(f"{title} ({number})", capability, sm_count, known)
        gpus[number] = limits
    return gpus


def _row(event: Mapping[str, Any], gpus: Mapping[int, GpuLimits]) -> dict[str, Any]:
    """A row of the kernel table; its start is in microseconds, by the trace's own clock."""
    details = event.get("args")
    details = details if isinstance(details, dict) else {}
    grid, block = _dimensions(details.get("grid")), _dimensions(details.get("block"))
    if 0 in (*grid, *block) or math.isnan(grid[0] + block[0]):
        grid = block = _NOT_KNOWN
    number = _number(details.get("device"))
    if math.isnan(number) and len(gpus) == 1:
        (number,) = gpus
    gpu = gpus.get(int(number)) if number >= 0 else None
    duration = _number(event.get("dur"))
    estimate = next((_number(details[name]) for name in _ESTIMATE if name in details), math.nan)
    return {
        "gpu": "" if gpu is None else gpu.name,
        "device": number,
        "kernel": str(event.get("name", "")),
        **dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True)),
        **dict(zip(("block_x", "block_y", "block_z"), block, strict=True)),
        "registers_per_thread": _number(details.get("registers per thread")),
        "shared_memory": _number(details.get("shared memory")),
        "duration": duration / 1e6 if duration >= 0 else math.nan,
        "estimate": estimate / 100,
        START: _number(event.get("ts")),
    }


def _dimensions(value: object) -> tuple[float, float, float]:
    if not isinstance(value, list) or len(value) != 3 or not all(_is_number(one) for one in value):
        return _NOT_KNOWN
    return float(value[0]), float(value[1]), float(value[2])


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _number(value: Any) -> float:
    return float(value) if _is_number(value) else math.nan
