"""CSV files of Nsight Compute: ``ncu --csv`` with ``--page raw`` (a row per launch) or ``--page details`` (a row per metric).

What ncu and the profiled program print besides (``==PROF== …``) is passed over; several such files may follow each other. The
page details rounds scaled sizes to two decimals, which can shift a launch by a block per SM; ``--print-units base`` is exact.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from epochcast.analyzer.backends.occupancy.modelled import GpuLimits, limits_by_capability
from epochcast.analyzer.errors import InputError
from lab.kernels.files.kernel_file import KernelFile
from lab.kernels.kernel_table import kernel_table

HEADER = re.compile(r'^[ \t]*("ID"|ID),', re.MULTILINE)
"""What a line of column names begins with."""

# Each figure by its metric, and by its label on the details page.
_ACHIEVED = ("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy")
_THEORETICAL = ("sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy")
_DURATION = ("gpu__time_duration.sum", "Duration")
_REGISTERS = ("launch__registers_per_thread", "Registers Per Thread")
_STATIC = ("launch__shared_mem_per_block_static", "Static Shared Memory Per Block")
_DYNAMIC = ("launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory Per Block")
_SMS = ("device__attribute_multiprocessor_count", "# SMs")
_GPU_NAME = "device__attribute_display_name"
_LIMITS = {
    "max_warps": "device__attribute_max_warps_per_multiprocessor",
    "max_blocks": "device__attribute_max_blocks_per_multiprocessor",
    "registers": "device__attribute_max_registers_per_multiprocessor",
    "registers_per_block": "device__attribute_max_registers_per_block",
    "shared_memory": "device__attribute_max_shared_memory_per_multiprocessor",
    "shared_memory_per_block": "device__attribute_max_shared_memory_per_block_optin",
}
_READ = re.compile(r"launch__|device__attribute|gpu__time_duration|sm__warps_active|sm__maximum_warps")
"""Metrics that are kept of the page raw, which may have hundreds."""

_SECONDS = {
    **dict.fromkeys(("ns", "nsecond", ""), 1e-9),
    **dict.fromkeys(("us", "usecond"), 1e-6),
    **dict.fromkeys(("ms", "msecond"), 1e-3),
    **dict.fromkeys(("s", "second"), 1.0),
}
_BYTES = {"": 1.0, "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}  # decimal: 102400 byte are 102.40 Kbyte
_NO_VALUE = {"", "n/a", "nan", "-", "no data", "(!) n/a"}


class _Launch(NamedTuple):
    """One profiled launch: its file's columns, and text and unit of its metrics."""

    file: str
    columns: Mapping[str, str]
    metrics: dict[str, tuple[str, str]]


def read(text: str, name: str) -> KernelFile:
    """The profiled launches, with achieved occupancy and everything else that ncu collected.

    Raises:
        InputError: no launch was profiled, no usable metric was read, or a figure cannot be understood.
    """
    launches = _launches(text, name)
    if not any(metric in launch.metrics for launch in launches for metric in (*_ACHIEVED, *_REGISTERS)):
        raise InputError(f"{name!r} holds no launch with achieved occupancy or registers per thread; profile these metrics")
    limits: dict[str, GpuLimits] = {}
    rows = []
    for launch in launches:
        gpu = _gpu(launch)
        if gpu is not None:
            limits.setdefault(gpu.name, gpu)
        rows.append(_row(launch, "" if gpu is None else gpu.name))
    return KernelFile("ncu CSV file", kernel_table(**{column: [row[column] for row in rows] for column in rows[0]}), limits)


def _launches(text: str, name: str) -> list[_Launch]:
    """Launches in the order in which they ran."""
    header: list[str] = []
    units: list[str] = []
    launches: dict[tuple[int, str, str], _Launch] = {}
    part = 0  # numbers of launches start again in every further file
    for number, line in enumerate(text.splitlines()):
        if HEADER.match(line):
            header, units, part = next(csv.reader([line.strip()])), [], number
            continue
        cells = next(csv.reader([line]), []) if header and "," in line else []
        if len(cells) != len(header) or not cells:
            continue
        values = dict(zip(header, cells, strict=True))
        if not values["ID"].strip().isdecimal():
            units = units or cells
            continue
        launch = launches.setdefault((part, values.get("Process ID", ""), values["ID"]), _Launch(name, values, {}))
        if "Metric Name" in values:
            launch.metrics[values["Metric Name"]] = (values.get("Metric Value", ""), values.get("Metric Unit", ""))
        else:
            rows = zip(header, cells, units or [""] * len(header), strict=True)
            launch.metrics.update({metric: (cell, unit) for metric, cell, unit in rows if _READ.match(metric)})
    return list(launches.values())


def _row(launch: _Launch, gpu: str) -> dict[str, Any]:
    """A row of the kernel table."""
    device = launch.columns.get("Device", "")
    return {
        "gpu": gpu,
        "device": float(device) if device.isdecimal() else math.nan,
        "kernel": launch.columns["Kernel Name"],
        **_dimensions(launch, "grid"),
        **_dimensions(launch, "block"),
        "registers_per_thread": _number(launch, _REGISTERS),
        "shared_memory": round(_number(launch, _STATIC, _BYTES) + _number(launch, _DYNAMIC, _BYTES), 3),
        "duration": _number(launch, _DURATION, _SECONDS),
        "achieved": _number(launch, _ACHIEVED) / 100,
        "theoretical": _number(launch, _THEORETICAL) / 100,
    }


def _dimensions(launch: _Launch, which: str) -> dict[str, float]:
    """``(64, 1, 1)`` of the column; else a metric for each; else the product as the first of three."""
    column = f"{which.capitalize()} Size"
    sizes = [float(size) for size in re.findall(r"\d+", launch.columns.get(column, ""))]
    if len(sizes) != 3:
        sizes = [_number(launch, [f"launch__{which}_dim_{axis}"]) for axis in "xyz"]
    if any(map(math.isnan, sizes)):
        sizes = [_number(launch, [f"launch__{which}_size", column]), 1.0, 1.0]
    return {f"{which}_{axis}": size for axis, size in zip("xyz", sizes, strict=True)}


def _gpu(launch: _Launch) -> GpuLimits | None:
    """What the launch says of its GPU; None without compute capability and SMs."""
    sms, capability = _number(launch, _SMS), launch.columns.get("CC", "")
    if math.isnan(sms) or not re.fullmatch(r"\d+\.\d", capability):
        return None
    figures = {name: _number(launch, [metric]) for name, metric in _LIMITS.items()}
    title = launch.metrics.get(_GPU_NAME, ("", ""))[0] or f"GPU of {sms:.0f} SMs"
    known = {name: int(value) for name, value in figures.items() if value > 0}
    return limits_by_capability(title, float(capability), int(sms), **known)


def _number(launch: _Launch, metrics: Sequence[str], units: Mapping[str, float] | None = None) -> float:
    """The first of these metrics that has a value, in base units; NaN if none has."""
    for metric in metrics:
        text, unit = launch.metrics.get(metric, ("", ""))
        text = text.split("(")[0].strip() if text[:1].isdigit() else text.strip()  # "12 (4; 8)": a value and its instances
        if text.lower() in _NO_VALUE:
            continue
        if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d*)?", text):
            text = text.replace(",", "")
        try:
            value = float(text)
        except ValueError:
            raise InputError(f"metric {metric!r} of {launch.file!r} is {text!r}, no number; run ncu with LC_ALL=C") from None
        if not math.isfinite(value):
            continue
        unit = unit.split("/")[0].strip()
        if units is not None and unit not in units:
            raise InputError(f"metric {metric!r} of {launch.file!r} has unit {unit!r}; print base units by --print-units base")
        return value if units is None else value * units[unit]
    return math.nan
