"""Sentences and tables of ``python -m lab.kernels``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from epochcast.analyzer.tables import percent, seconds_text, table, width
from lab.kernels.busiest import short_name

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
    "impossible_launch": "launches that this GPU cannot run (wrong GPU?)",
    "gpu_not_known": "launches on a GPU that the file does not name (give --gpu)",
}


def sentences(answer: Mapping[str, Any]) -> str:
    """The answer for people."""
    return "\n".join(_lines(answer))


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    gpu = answer["gpu"] or f"{len({device['gpu'] for device in answer['devices']})} GPUs"
    yield f"{gpu}: {answer['launches']} kernel launches, GPU time {seconds_text(answer['seconds'])} ({answer['format']})"
    yield ""
    ratios = {
        "launch-config occupancy": answer,
        "  of an SM that has work": answer["active"],
        "  if grids were larger": answer["limit"],
        "achieved occupancy, measured by ncu": answer["achieved"],
    }
    rows = [
        (title, *(percent(means[name]) for name in ("mean", "time_mean", "max"))) for title, means in ratios.items() if means
    ]
    yield table(("", "mean", "weighted by time", "highest"), rows)
    if answer["limiters"]:
        shares = sorted(answer["limiters"].items(), key=lambda share: -share[1])
        yield f"limited by (share of GPU time): {', '.join(f'{_LIMITERS[name]} {percent(share)}' for name, share in shares)}"
    yield from _over_time(answer)
    for sentence in answer["advice"]:
        yield f"advice: {sentence}"
    for title, key in (("GPU", "devices"), ("workload", "workloads")):
        if answer[key]:
            yield from _groups(title, answer[key])
    yield ""
    yield from _kernels(answer["kernels"])
    for kind, count in answer["skipped"].items():
        yield f"skipped: {count} {_SKIPPED[kind]}"


def _over_time(answer: Mapping[str, Any]) -> Iterator[str]:
    if answer["span_s"] is None:
        return
    gpus = f" (mean over {len(answer['devices'])} GPUs)" if answer["devices"] else ""
    yield (
        f"over time: a kernel ran {percent(answer['utilisation'])} of {seconds_text(answer['span_s'])}: NVML utilisation{gpus};"
        f" warp slots were {percent(answer['occupancy_of_the_span'])} full on average, by launch configuration"
    )
    if answer["unknown_of_the_span"]:
        unknown = percent(answer["unknown_of_the_span"])
        yield f"for {unknown} of the time only kernels of unknown occupancy ran; the second figure leaves this out"


def _groups(title: str, groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    listed = sorted(groups, key=lambda group: -(group["seconds"] or 0.0))[:_LISTED]
    columns = {
        "launches": [str(group["launches"]) for group in listed],
        "GPU time": [seconds_text(group["seconds"]) for group in listed],
        "mean": [percent(group["mean"]) for group in listed],
        "weighted by time": [percent(group["time_mean"]) for group in listed],
    }
    names = [_group_name(group, _room(columns)) for group in listed]
    yield ""
    yield table([title, *columns], list(zip(names, *columns.values(), strict=True)))
    if len(listed) < len(groups):
        yield f"… and {len(groups) - len(listed)} more (--json)"


def _group_name(group: Mapping[str, Any], room: int) -> str:
    index = "" if group.get("device") is None else f" ({group['device']})"
    return short_name(group["workload"] if "workload" in group else group["gpu"] + index, room)


def _kernels(kernels: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    columns = {
        "occupancy": [percent(kernel["grid"]) for kernel in kernels],
        "limit": [percent(kernel["limit"]) for kernel in kernels],
        "achieved": [percent(kernel["achieved"]) for kernel in kernels],
        "limited by": [(kernel["limiter"] or "-").replace("_", " ") for kernel in kernels],
        "launches": [str(kernel["launches"]) for kernel in kernels],
        "GPU time": [seconds_text(kernel["seconds"]) for kernel in kernels],
        "share": [percent(kernel["share"]) for kernel in kernels],
    }
    if all(kernel["achieved"] is None for kernel in kernels):
        del columns["achieved"]
    room = _room(columns)
    columns["kernel"] = [short_name(kernel["kernel"], room) + _configuration(kernel) for kernel in kernels]
    yield table(list(columns), list(zip(*columns.values(), strict=True)), prose=True)


def _room(columns: Mapping[str, Sequence[str]]) -> int:
    """Letters for a name next to these columns; on a terminal they should all be seen."""
    letters = width(sys.stdout)
    if letters is None:
        return _NAME_LENGTH
    taken = sum(2 + max(map(len, (title, *cells))) for title, cells in columns.items())
    return min(_NAME_LENGTH, max(_SHORTEST_NAME, letters - taken))


def _configuration(kernel: Mapping[str, Any]) -> str:
    launch = kernel.get("launch")
    if launch is None:
        return ""
    grid, block = ("x".join(map(str, launch[name])) for name in ("grid", "block"))
    return f" <{grid} of {block}, {launch['registers_per_thread']} registers, {launch['shared_memory']} bytes>"
