"""Launch configurations of classes of kernels, for a GPU: as recorded on the nearest architecture, else as assumed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd

from ..launch.calculator import CONFIGURATION, occupancies
from ..launch.gpu_limits import GpuLimits

MEASURED = "launch_configurations.toml"
ASSUMED = "assumed_configurations.toml"


@dataclass(frozen=True)
class LaunchConfiguration:
    """What all launches of a class of kernels have in common.

    Args:
        name: of the class, or of the kernel where it cuts its answer into tiles.
        block: threads.
        registers_per_thread: 32-bit registers.
        shared_memory: bytes per block.
        measured_on: compute capability of the GPUs whose traces show it; 0: assumed.
        shortest: seconds of the shortest recorded launch of a few blocks; 0: none was recorded.
    """

    name: str
    block: tuple[int, int, int]
    registers_per_thread: int
    shared_memory: int
    measured_on: float
    shortest: float

    @property
    def threads(self) -> int:
        """Of a block."""
        x, y, z = self.block
        return x * y * z


@dataclass(frozen=True)
class Tile:
    """A kernel whose blocks each make ``rows`` x ``columns`` of an answer.

    It has a variant for each of ``alignments``, for matrices with sides that this divides.
    """

    configuration: LaunchConfiguration
    rows: int
    columns: int
    alignments: tuple[int, ...]


@dataclass(frozen=True)
class LaunchConfigurations:
    """Those that a GPU can run.

    Args:
        architecture: nearest one with traces.
        kernels: by class.
        tiles: by (kind, arithmetic): kind ``product`` or ``convolution``, arithmetic ``fp32``, ``tf32`` or ``half``.
        shortest_kernel: seconds of a kernel of one block.
        bandwidth_share, strided_bandwidth_share: of the data sheet's memory bandwidth that large kernels reach, over elements
            that lie side by side and that do not.
    """

    architecture: float
    kernels: Mapping[str, LaunchConfiguration]
    tiles: Mapping[tuple[str, str], tuple[Tile, ...]]
    shortest_kernel: float
    bandwidth_share: float
    strided_bandwidth_share: float


@cache
def launch_configurations(limits: GpuLimits, measured_text: str = "") -> LaunchConfigurations:
    """Of each class the configuration from the nearest architecture that has traces of it, if the launch fits.

    Nearest is the newest that is not newer than the GPU, then the older ones, then the newer: a GPU has the instructions of
    those before it. Where none fits or has traces the assumed one stands. ``measured_text`` takes the place of
    launch_configurations.toml where it is not empty.
    """
    measured, assumed = tomllib.loads(measured_text) if measured_text else _read(MEASURED), _read(ASSUMED)
    capability = limits.compute_capability
    gpu = _nearest(measured["gpu"], capability)[0]
    names = {str(row["class"]) for row in (*measured["kernel"], *assumed["kernel"])}
    kernels = {name: _kernel(name, measured["kernel"], assumed["kernel"], limits) for name in sorted(names)}
    kinds = {(row["class"], row["arithmetic"]) for row in measured["tile"]}
    return LaunchConfigurations(
        architecture=float(gpu["architecture"]),
        kernels={name: one for name, one in kernels.items() if one is not None},
        tiles={key: _tiles(key, measured["tile"], limits) for key in kinds},
        shortest_kernel=float(gpu["shortest_kernel"]),
        bandwidth_share=float(gpu["bandwidth_share"]),
        strided_bandwidth_share=float(gpu["strided_bandwidth_share"]),
    )


def _kernel(
    name: str, measured: Iterable[Mapping[str, Any]], assumed: Iterable[Mapping[str, Any]], limits: GpuLimits
) -> LaunchConfiguration | None:
    seen = _nearest([row for row in measured if row["class"] == name], limits.compute_capability)
    least = [row for row in assumed if row["class"] == name and row["architecture"] <= limits.compute_capability]
    least.sort(key=lambda row: float(row["architecture"]), reverse=True)
    configurations = [_configuration(row, name, measured_on=float(row["architecture"])) for row in seen]
    configurations += [_configuration(row, name, measured_on=0.0) for row in least]
    return next((one for one in configurations if _fits(one, limits)), None)


def _tiles(key: tuple[str, str], rows: Iterable[Mapping[str, Any]], limits: GpuLimits) -> tuple[Tile, ...]:
    """All tiles of the nearest architecture that has some that fit."""
    near = _nearest([row for row in rows if (row["class"], row["arithmetic"]) == key], limits.compute_capability)
    found: list[Tile] = []
    for row in near:
        configuration = _configuration(row, str(row["name"]), measured_on=float(row["architecture"]))
        if found and found[0].configuration.measured_on != configuration.measured_on:
            break
        if _fits(configuration, limits):
            found.append(Tile(configuration, int(row["rows"]), int(row["columns"]), tuple(row["alignments"])))
    return tuple(found)


def _nearest(rows: list[Mapping[str, Any]], capability: float) -> list[Mapping[str, Any]]:
    def distance(row: Mapping[str, Any]) -> tuple[bool, float]:
        newer = float(row["architecture"]) > capability
        return newer, abs(float(row["architecture"]) - capability)

    return sorted(rows, key=distance)


def _configuration(row: Mapping[str, Any], name: str, measured_on: float) -> LaunchConfiguration:
    x, y, z = row["block"]
    registers, shared = int(row["registers_per_thread"]), int(row["shared_memory"])
    return LaunchConfiguration(name, (x, y, z), registers, shared, measured_on, float(row.get("shortest", 0.0)))


def _fits(configuration: LaunchConfiguration, limits: GpuLimits) -> bool:
    launch = (1, 1, 1, *configuration.block, configuration.registers_per_thread, configuration.shared_memory)
    return bool(occupancies(pd.DataFrame([launch], columns=CONFIGURATION), limits)["grid"].notna().all())


@cache
def _read(name: str) -> dict[str, list[Mapping[str, Any]]]:
    return tomllib.loads((files(__package__) / name).read_text(encoding="utf-8"))
