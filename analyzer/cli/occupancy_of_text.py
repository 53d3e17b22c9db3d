"""Sentences and tables of ``epochcast occupancy-of``."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..backends.occupancy.launch.kernel_names import short_name
from .tables import seconds_text, table
from .terminal import width

_NAME_LENGTH = 70
_SHORTEST_NAME = 12
_LISTED = 10
_LIMITERS = {
    "warps": "warps (an SM holds no more)",
    "registers": "registers",
    "shared_memory": "shared memory",
    "blocks": "blocks per SM",
    "grid": "the grid (too few blocks)",
}
_SKIPPED = {
    "memory_copy": "copies and fills of memory",
    "no_launch_configuration": "kernels without launch configuration",
    "impossible_launch": "launches that this GPU cannot run (was it another?)",
    "gpu_not_known": "launches on a GPU that the file does not tell (name it by --gpu)",
}


def sentences(answer: Mapping[str, Any]) -> str:
    """The answer for people."""
    return "\n".join(_lines(answer))


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    gpu = answer["gpu"] or f"{len({one['gpu'] for one in answer['devices']})} GPUs"
    yield f"{gpu}: {answer['launches']} kernel launches, GPU time {_seconds(answer['seconds'])} ({answer['format']})"
    yield ""
    rows = [
        ("launch-config occupancy", answer),
        ("  of an SM that has work", answer["active"]),
        ("  if grids were larger", answer["limit"]),
    ]
    if answer["achieved"] is not None:
        rows.append(("achieved occupancy, measured by ncu", answer["achieved"]))
    header = ("", "mean", "weighted by time", "highest")
    yield table(header, [(title, *(_percent(one[name]) for name in ("mean", "time_mean", "max"))) for title, one in rows])
    if answer["limiters"]:
        shares = sorted(answer["limiters"].items(), key=lambda one: -one[1])
        yield f"limited by (share of GPU time): {', '.join(f'{_LIMITERS[name]} {_percent(share)}' for name, share in shares)}"
    yield from _over_time(answer)
    for sentence in answer["advice"]:
        yield f"advice: {sentence}"
    yield from _groups("GPU", "gpu", answer["devices"])
    yield from _groups("workload", "workload", answer["workloads"])
    yield ""
    yield from _kernels(answer["kernels"])
    for kind, count in answer["skipped"].items():
        yield f"passed over: {count} {_SKIPPED[kind]}"


def _over_time(answer: Mapping[str, Any]) -> Iterator[str]:
    if answer["span_s"] is None:
        return
    gpus = f" (mean over {len(answer['devices'])} GPUs)" if answer["devices"] else ""
    yield (
        f"over time: a kernel ran {_percent(answer['utilisation'])} of {_seconds(answer['span_s'])}: NVML utilisation{gpus};"
        f" warp slots were filled {_percent(answer['occupancy_of_the_span'])} of it, by launch configuration"
    )
    if answer["unknown_of_the_span"]:
        unknown = _percent(answer["unknown_of_the_span"])
        yield f"in {unknown} of it kernels of unknown occupancy ran alone, which the latter leaves out"


def _groups(title: str, name: str, groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not groups:
        return
    listed = sorted(groups, key=lambda one: -(one["seconds"] or 0.0))[:_LISTED]
    header = ("launches", "GPU time", "mean", "weighted by time")
    figures = [
        (str(one["launches"]), _seconds(one["seconds"]), _percent(one["mean"]), _percent(one["time_mean"])) for one in listed
    ]
    names = [one[name] if one.get("device") is None else f"{one[name]} ({one['device']})" for one in listed]
    room = _room(header, figures)
    yield ""
    yield table((title, *header), [(short_name(one, room), *row) for one, row in zip(names, figures, strict=True)])
    if len(listed) < len(groups):
        yield f"… and {len(groups) - len(listed)} more (--json)"


def _kernels(kernels: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    measured = any(one["achieved"] is not None for one in kernels)
    header = [
        "occupancy",
        "limit",
        *(["achieved"] if measured else []),
        "limited by",
        "launches",
        "GPU time",
        "share",
    ]
    figures = [
        [
            _percent(one["grid"]),
            _percent(one["limit"]),
            *([_percent(one["achieved"])] if measured else []),
            (one["limiter"] or "-").replace("_", " "),
            str(one["launches"]),
            _seconds(one["seconds"]),
            _percent(one["share"]),
        ]
        for one in kernels
    ]
    room = _room(header, figures)
    rows = [[*row, short_name(one["kernel"], room) + _configuration(one)] for one, row in zip(kernels, figures, strict=True)]
    yield table([*header, "kernel"], rows, prose=True)


def _room(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Letters for a name beside these columns; on a terminal they should all be seen."""
    columns = width(sys.stdout)
    if columns is None:
        return _NAME_LENGTH
    taken = sum(2 + max(len(row[place]) for row in (header, *rows)) for place in range(len(header)))
    return min(_NAME_LENGTH, max(_SHORTEST_NAME, columns - taken))


def _configuration(kernel: Mapping[str, Any]) -> str:
    launch = kernel.get("launch")
    if launch is None:
        return ""
    grid, block = ("x".join(map(str, launch[name])) for name in ("grid", "block"))
    return f" <{grid} of {block}, {launch['registers_per_thread']} registers, {launch['shared_memory']} bytes>"


def _seconds(seconds: float | None) -> str:
    return seconds_text(None if seconds is None or math.isnan(seconds) else seconds)


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None or math.isnan(ratio) else f"{100 * ratio:.1f} %"
