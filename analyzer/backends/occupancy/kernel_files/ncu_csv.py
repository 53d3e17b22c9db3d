"""CSV files of Nsight Compute: ``ncu --csv`` with ``--page raw`` (a row per launch) or ``--page details`` (a row per metric).

What ncu and the profiled program print besides (``==PROF== …``) is passed over; several such files may follow each other. The
page details rounds scaled sizes to two decimals, which can shift a launch by a block per SM; ``--print-units base`` is exact.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....errors import InputError
from ..launch.gpu_limits import Figures, GpuLimits, limits_by_capability
from ..launch.kernel_table import kernel_table
from .kernel_file import KernelFile

NAME = "ncu CSV file"

_HEADER = re.compile(r'^[ \t]*("ID"|ID),', re.MULTILINE)

# Each figure by its metric, and by its label on the details page.
_ACHIEVED = ("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy")
_THEORETICAL = ("sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy")
_DURATION = ("gpu__time_duration.sum", "Duration")
_REGISTERS = ("launch__registers_per_thread", "Registers Per Thread")
_STATIC = ("launch__shared_mem_per_block_static", "Static Shared Memory Per Block")
_DYNAMIC = ("launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory Per Block")
_GRID = ("launch__grid_dim_x", "launch__grid_dim_y", "launch__grid_dim_z")
_BLOCK = ("launch__block_dim_x", "launch__block_dim_y", "launch__block_dim_z")
_BLOCKS = ("launch__grid_size", "Grid Size")
_THREADS = ("launch__block_size", "Block Size")
_SMS = ("device__attribute_multiprocessor_count", "# SMs")
_GPU_NAME = "device__attribute_display_name"
_FIGURES = {
    "max_warps": "device__attribute_max_warps_per_multiprocessor",
    "max_blocks": "device__attribute_max_blocks_per_multiprocessor",
    "registers": "device__attribute_max_registers_per_multiprocessor",
    "registers_per_block": "device__attribute_max_registers_per_block",
    "shared_memory": "device__attribute_max_shared_memory_per_multiprocessor",
    "shared_memory_per_block": "device__attribute_max_shared_memory_per_block_optin",
}
_LAUNCH = (*_REGISTERS, *_STATIC, *_DYNAMIC, *_GRID, *_BLOCK, *_BLOCKS, *_THREADS)
_READ = {*_ACHIEVED, *_THEORETICAL, *_DURATION, *_LAUNCH, *_SMS, *_FIGURES.values(), _GPU_NAME}
_PROFILE = (
    "profile with `ncu --csv --page raw --print-units base --metrics "
    f"{_ACHIEVED[0]},{_DURATION[0]},{_REGISTERS[0]},{_STATIC[0]},{_DYNAMIC[0]}`"
)

_SECONDS = {
    **dict.fromkeys(("ns", "nsecond", ""), 1e-9),
    **dict.fromkeys(("us", "usecond"), 1e-6),
    **dict.fromkeys(("ms", "msecond"), 1e-3),
    **dict.fromkeys(("s", "second"), 1.0),
}
_BYTES = {
    "byte": 1.0,
    "": 1.0,
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
}  # ncu's prefixes are decimal: 102400 byte, 102.40 Kbyte
_NO_VALUE = {"", "n/a", "nan", "-", "no data", "(!) n/a"}


def recognises(text: str) -> bool:
    """Whether a line begins with the column ``ID``."""
    return bool(_HEADER.search(text))


def read(text: str, name: str) -> KernelFile:
    """The profiled launches, with achieved occupancy and what else ncu was asked for.

    Raises:
        InputError: no launch was profiled, no usable metric was read, or a figure cannot be understood.
    """
    launches = list(_launches(text, name))
    if not launches:
        raise InputError(f"{name!r} holds no profiled launch; see in it why ncu read none, then {_PROFILE}")
    if not any(figure in launch.metrics for launch in launches for figure in (*_ACHIEVED, *_REGISTERS)):
        raise InputError(f"{name!r} holds neither achieved occupancy nor registers per thread; {_PROFILE}")
    limits: dict[str, GpuLimits] = {}
    rows = []
    for launch in launches:
        gpu = launch.gpu()
        if gpu is not None:
            limits.setdefault(gpu.name, gpu)
        rows.append(launch.row("" if gpu is None else gpu.name))
    return KernelFile(NAME, kernel_table(**{column: [row[column] for row in rows] for column in rows[0]}), limits)


class _Launch:
    """Columns and metrics of one profiled launch; a metric is its text and unit."""

    def __init__(self, file: str, columns: Mapping[str, str]) -> None:
        self.file = file
        self.columns = columns
        self.metrics: dict[str, tuple[str, str]] = {}

    def number(self, names: Sequence[str], units: Mapping[str, float] | None = None) -> float:
        """The first of these metrics that has a value, in base units; NaN if none has."""
        for metric in names:
            text, unit = self.metrics.get(metric, ("", ""))
            value = self._parse(text, metric)
            if math.isnan(value):
                continue
            if units is None:
                return value
            unit = unit.split("/")[0].strip()
            if unit not in units:
                raise InputError(
                    f"metric {metric!r} of {self.file!r} has unit {unit!r}; print base units by --print-units base"
                )
            return value * units[unit]
        return math.nan

    def _parse(self, text: str, metric: str) -> float:
        text = text.split("(")[0].strip() if text[:1].isdigit() else text.strip()  # "12 (4; 8)": a value and its instances
        if text.lower() in _NO_VALUE:
            return math.nan
        if re.fullmatch(r"\d{1,3}(,\d{3})+(\.\d*)?", text):
            text = text.replace(",", "")
        try:
            value = float(text)
            return value if math.isfinite(value) else math.nan
        except ValueError:
            raise InputError(f"metric {metric!r} of {self.file!r} is {text!r}, no number; run ncu with LC_ALL=C") from None

    def row(self, gpu: str) -> dict[str, Any]:
        """A row of the kernel table."""
        grid = self._dimensions("Grid Size", _GRID, _BLOCKS)
        block = self._dimensions("Block Size", _BLOCK, _THREADS)
        return {
            "gpu": gpu,
            "device": float(self.columns["Device"]) if self.columns.get("Device", "").isdigit() else math.nan,
            "kernel": self.columns.get("Kernel Name", ""),
            **dict(zip(("grid_x", "grid_y", "grid_z"), grid, strict=True)),
            **dict(zip(("block_x", "block_y", "block_z"), block, strict=True)),
            "registers_per_thread": self.number(_REGISTERS),
            "shared_memory": round(self.number(_STATIC, _BYTES) + self.number(_DYNAMIC, _BYTES), 3),
            "duration": self.number(_DURATION, _SECONDS),
            "achieved": self.number(_ACHIEVED) / 100,
            "theoretical": self.number(_THEORETICAL) / 100,
        }

    def _dimensions(self, column: str, each: Sequence[str], size: Sequence[str]) -> tuple[float, float, float]:
        """``(64, 1, 1)`` of the column; else a metric for each; else the product as the first of three."""
        found = [float(one) for one in re.findall(r"\d+", self.columns.get(column, ""))]
        if len(found) != 3:
            found = [self.number([metric]) for metric in each]
        if not any(map(math.isnan, found)):
            return found[0], found[1], found[2]
        return self.number(size), 1.0, 1.0

    def gpu(self) -> GpuLimits | None:
        """What the launch tells of its GPU; None without compute capability and SMs."""
        sms = self.number(_SMS)
        capability = self.columns.get("CC", "")
        if math.isnan(sms) or not re.fullmatch(r"\d+\.\d", capability):
            return None
        figures = {name: self.number([metric]) for name, metric in _FIGURES.items()}
        known = Figures(**{name: int(value) for name, value in figures.items() if value > 0})
        title = self.metrics.get(_GPU_NAME, ("", ""))[0]
        return limits_by_capability(title or f"GPU of {sms:.0f} SMs", float(capability), int(sms), known)


def _launches(text: str, name: str) -> Iterator[_Launch]:
    """Launches in the order in which they ran."""
    header: list[str] = []
    units: list[str] = []
    launches: dict[tuple[int, str, str], _Launch] = {}
    part = 0  # numbers of launches begin anew in every further file
    for number, line in enumerate(text.splitlines()):
        if _HEADER.match(line):
            header, units, part = next(csv.reader([line.strip()])), [], number
            if "Kernel Name" not in header:
                raise InputError(f"{name!r} begins as an ncu CSV file and lacks the column 'Kernel Name'; {_PROFILE}")
            continue
        cells = next(csv.reader([line]), []) if header and "," in line else []
        if len(cells) != len(header) or not cells:
            continue
        values = dict(zip(header, cells, strict=True))
        if not values["ID"].strip().isdigit():
            units = units or cells
            continue
        launch = launches.setdefault((part, values.get("Process ID", ""), values["ID"]), _Launch(name, values))
        if "Metric Name" in values:
            if values["Metric Name"] in _READ:
                launch.metrics[values["Metric Name"]] = (values.get("Metric Value", ""), values.get("Metric Unit", ""))
        else:
            launch.metrics = {
                metric: (cell, unit)
                for metric, cell, unit in zip(header, cells, units or [""] * len(header), strict=True)
                if metric in _READ
            }
    yield from launches.values()
