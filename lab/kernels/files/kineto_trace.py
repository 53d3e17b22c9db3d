"""Traces of PyTorch's profiler (Kineto), ``torch.profiler.profile.export_chrome_trace``: Chrome's trace format, JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from epochcast.analyzer.backends.occupancy.modelled import WARP_SIZE, GpuLimits, limits_by_capability
from epochcast.analyzer.errors import InputError
from lab.kernels.files.kernel_file import KernelFile
from lab.kernels.kernel_table import kernel_table

# The second of each until PyTorch 1.9, with other names of some properties.
_ESTIMATE = ("est. achieved occupancy %", "theoretical occupancy %")
_PROPERTIES = ("deviceProperties", "computeProperties")
_OLDER_NAMES = {
    "major": "computeMajor",
    "minor": "computeMinor",
    "multiProcessorCount": "numSms",
    "maxThreadsPerMultiProcessor": "maxThreadsPerMultiprocessor",
}
_COPIES = {"gpu_memcpy", "gpu_memset", "memcpy", "memset"}


def read(text: str, name: str) -> KernelFile:
    """The kernels of a trace; of copies between memories and events of the CPU nothing is kept.

    Kernels without grid and block, or with zeros (some of CUDA graphs), have no launch configuration in the table; they kept
    the GPU busy all the same.

    Raises:
        InputError: it is not such a trace, is truncated, or holds no kernel of an NVIDIA GPU.
    """
    properties, events = _content(text, name)
    gpus = _gpus(properties, name)
    kinds = [_kind(event) for event in events]
    rows = [_row(event, gpus) for event, kind in zip(events, kinds, strict=True) if kind == "kernel"]
    if not rows:
        raise InputError(f"{name!r} holds no kernel; record it with ProfilerActivity.CUDA while something runs on a GPU")
    table = kernel_table(**{column: [row[column] for row in rows] for column in rows[0]})
    table["start"] = (table["start"] - table["start"].min()) / 1e6  # this order: a clock since 1970 fills a float
    copies = sum(kind in _COPIES for kind in kinds)
    return KernelFile(
        "PyTorch profiler trace", table, {gpu.name: gpu for gpu in gpus.values()}, {"memory_copy": copies} if copies else {}
    )


def _content(text: str, name: str) -> tuple[list[Any], list[Any]]:
    """Device properties and events."""
    try:
        trace = json.loads(text, strict=False, object_hook=_without_the_cpu)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name!r} is no whole trace as the profiler wrote it: {error}") from error
    if isinstance(trace, list):
        return [], trace
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list):
        raise InputError(f"{name!r} is JSON without a list 'traceEvents'; give a trace of PyTorch's profiler")
    return [gpu for key in _PROPERTIES if isinstance(trace.get(key), list) for gpu in trace[key]], events


def _kind(event: object) -> str:
    """Category of an event; empty where it has none."""
    return str(event.get("cat", "")).lower() if isinstance(event, dict) else ""


def _without_the_cpu(value: dict[str, Any]) -> dict[str, Any] | None:
    """None for events that are not of a GPU: they are most of a trace, and would take several times its size."""
    return value if _kind(value) in ("", "kernel", *_COPIES) else None


def _gpus(properties: Sequence[Any], name: str) -> dict[int, GpuLimits]:
    """The GPUs that the trace describes well enough, by index; different ones have different names."""
    gpus: dict[int, GpuLimits] = {}
    for gpu in properties:
        title = str(gpu.get("name", "")).strip() or "unnamed GPU"
        if gpu.get("warpSize", WARP_SIZE) != WARP_SIZE or title.startswith("AMD"):
            raise InputError(f"{name!r} was recorded on {title!r}; occupancy is calculated for NVIDIA GPUs alone")
        figures = {_OLDER_NAMES.get(key, key): int(value) for key, value in gpu.items() if _number(value) >= 0}
        if not {"numSms", "computeMajor", "computeMinor"} <= set(figures):
            continue
        known = limits_by_capability(
            title,
            figures["computeMajor"] + figures["computeMinor"] / 10,
            figures["numSms"],
            max_warps=figures.get("maxThreadsPerMultiprocessor", 0) // WARP_SIZE,
            registers=figures.get("regsPerMultiprocessor"),
            registers_per_block=figures.get("regsPerBlock"),
            shared_memory=figures.get("sharedMemPerMultiprocessor"),
            shared_memory_per_block=figures.get("sharedMemPerBlockOptin"),
        )
        index = figures.get("id", len(gpus))
        if any(other.name == title and other != known for other in gpus.values()):  # parts of one GPU, say
            known = replace(known, name=f"{title} ({index})")
        gpus[index] = known
    return gpus


def _row(event: Mapping[str, Any], gpus: Mapping[int, GpuLimits]) -> dict[str, Any]:
    """A row of the kernel table; its start is in microseconds, by the trace's own clock."""
    details = event.get("args")
    details = details if isinstance(details, dict) else {}
    device = _number(details.get("device"))
    if math.isnan(device) and len(gpus) == 1:
        (device,) = gpus
    duration = _number(event.get("dur"))
    return {
        "gpu": gpus[int(device)].name if device in gpus else "",
        "device": device,
        "kernel": str(event.get("name", "")),
        **_dimensions("grid", details),
        **_dimensions("block", details),
        "registers_per_thread": _number(details.get("registers per thread")),
        "shared_memory": _number(details.get("shared memory")),
        "duration": duration / 1e6 if duration >= 0 else math.nan,
        "estimate": next((_number(details[name]) for name in _ESTIMATE if name in details), math.nan) / 100,
        "start": _number(event.get("ts")),
    }


def _dimensions(which: str, details: Mapping[str, Any]) -> dict[str, float]:
    """A list of three sizes as three columns."""
    value = details.get(which)
    sizes = value if isinstance(value, list) and len(value) == 3 else [None] * 3
    return {f"{which}_{axis}": _number(size) for axis, size in zip("xyz", sizes, strict=True)}


def _number(value: Any) -> float:
    """The value as a float; NaN where it is none."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    return float(value) if is_number else math.nan
