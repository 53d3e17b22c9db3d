"""Launch configurations of classes of kernels, for a GPU: as recorded on the nearest architecture, else as assumed."""

from __future__ import annotations

import math
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import compress
from typing import Any

import pandas as pd

from epochcast.analyzer.backends.occupancy.modelled_kernels.occupancy import CONFIGURATION, GpuLimits, grid_occupancy

MEASURED = files(__package__) / "launch_configurations.toml"
_ASSUMED = files(__package__) / "assumed_configurations.toml"


@dataclass(frozen=True, kw_only=True)
class LaunchConfiguration:
    """What all launches of a class of kernels, or of one that cuts its answer into tiles, have in common.

    Fields as in the TOML files, which say their units; ``source`` is of an assumed one and empty where it is recorded.
    """

    name: str
    architecture: float
    block: Sequence[int]
    registers_per_thread: int
    shared_memory: int
    shortest: float = 0.0
    launches: int = 0
    of: int = 0
    source: str = ""

    @property
    def threads(self) -> int:
        """Of a block."""
        return math.prod(self.block)


@dataclass(frozen=True, kw_only=True)
class Tile(LaunchConfiguration):
    """A kernel whose blocks each make ``rows`` x ``columns`` of an answer, of a ``product`` or a ``convolution``.

    It has a variant for each of ``alignments``, for matrices with sides that this divides.
    """

    kind: str
    arithmetic: str
    rows: int
    columns: int
    alignments: Sequence[int]

    @property
    def persistent(self) -> bool:
        """Whether there are no more blocks than fit, each of which makes several tiles."""
        return self.name.startswith("sm90_xmma")

    @property
    def channels_last(self) -> bool:
        """Whether the answer of a convolution must be turned round."""
        return "nhwckrsc_nchw" not in self.name


@dataclass(frozen=True)
class LaunchConfigurations:
    """Those that a GPU can run, and the figures of the nearest architecture with traces.

    Kernels by name; tiles by (kind, arithmetic): ``product`` or ``convolution``, ``fp32``, ``tf32`` or ``half``.
    """

    kernels: Mapping[str, LaunchConfiguration]
    tiles: Mapping[tuple[str, str], Sequence[Tile]]
    architecture: float
    shortest_kernel: float
    bandwidth_share: float
    strided_bandwidth_share: float


@cache
def launch_configurations(limits: GpuLimits, measured: str = "") -> LaunchConfigurations:
    """Of each class the configuration from the nearest architecture that has traces of it, if the launch fits.

    Nearest is the newest that is not newer than the GPU, then the older ones, then the newer: a GPU has the instructions of
    those before it. Where none fits or has traces the assumed one counts. Tiles are all those of one architecture. ``measured``
    takes the place of what launch_configurations.toml says.
    """

    def distance(row: dict[str, Any]) -> tuple[bool, float]:
        return row["architecture"] > limits.compute_capability, abs(row["architecture"] - limits.compute_capability)

    def usable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        sizes = [(1, 1, 1, *row["block"], row["registers_per_thread"], row["shared_memory"]) for row in rows]
        fits = grid_occupancy(pd.DataFrame(sizes, columns=CONFIGURATION), limits).notna()
        return sorted(compress(rows, fits), key=distance)

    tables = tomllib.loads(measured or MEASURED.read_text(encoding="utf-8"))
    assumed = tomllib.loads(_ASSUMED.read_text(encoding="utf-8"))
    kernels = [LaunchConfiguration(**row) for row in usable(tables["kernel"]) + usable(assumed["kernel"])]
    tiles: dict[tuple[str, str], list[Tile]] = defaultdict(list)
    for tile in (Tile(**row) for row in usable(tables["tile"])):
        alike = tiles[tile.kind, tile.arithmetic]
        if not alike or alike[0].architecture == tile.architecture:
            alike.append(tile)
    nearest = min(tables["gpu"], key=distance)
    return LaunchConfigurations({kernel.name: kernel for kernel in reversed(kernels)}, tiles, **nearest)
