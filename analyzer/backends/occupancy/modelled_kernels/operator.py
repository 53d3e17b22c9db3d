"""One operator of a graph on a GPU, and the kernels that it launches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .....regressor import Gpu
from ..launch.gpu_limits import GpuLimits
from .launch_configurations import LaunchConfiguration, LaunchConfigurations

HALF = ("fp16", "bf16")
Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Target:
    """The GPU that a graph is to run on and how.

    Args:
        gpu: of the catalogue.
        limits: what its SMs hold.
        precision: ``fp32``, ``fp16`` or ``bf16``.
        configurations: launch configurations for it.
    """

    gpu: Gpu
    limits: GpuLimits
    precision: str
    configurations: LaunchConfigurations

    @property
    def arithmetic(self) -> str:
        """Of matrix products: PyTorch keeps TensorFloat-32 off for them unless asked."""
        return "half" if self.precision in HALF else "fp32"

    @property
    def convolution_arithmetic(self) -> str:
        """Of cuDNN's convolutions and recurrent layers: PyTorch lets them use TensorFloat-32 where there is some."""
        return "tf32" if self.arithmetic == "fp32" and self.limits.compute_capability >= 8.0 else self.arithmetic


@dataclass(frozen=True)
class Operator:
    """One node of a graph: its type, hyper-parameters and sizes in elements, as in ``ComputationGraph``.

    Args:
        word: of the vocabulary.
        hyper: by HYPER_PARAMETERS; 0 where one does not apply.
        read, written, weights: elements.
        samples: batch of the graph.
        sources: words of the operators that it reads from.
        width: bytes of an element.
    """

    word: str
    hyper: Mapping[str, float]
    read: float
    written: float
    weights: float
    samples: int
    sources: tuple[str, ...]
    width: int

    def side(self, name: str) -> int:
        """A hyper-parameter as a whole number above 0."""
        return max(1, round(self.hyper[name]))

    @property
    def moved(self) -> float:
        """Bytes that it reads and writes."""
        return self.width * (self.read + self.written + self.weights)


@dataclass(frozen=True)
class Kernel:
    """Launches alike.

    Args:
        configuration: block, registers, shared memory.
        grid: blocks.
        moved: bytes read and written by one launch.
        computing: seconds that the arithmetic of one launch takes; 0 where the memory sets the time.
        launches: how many.
    """

    configuration: LaunchConfiguration
    grid: Grid
    moved: float
    computing: float = 0.0
    launches: int = 1

    def times(self, launches: int) -> Kernel:
        """As many launches of each."""
        return replace(self, launches=self.launches * launches)


def per_block(elements: float, of_a_block: int) -> Grid:
    """A grid in one direction with enough blocks for all elements."""
    return max(1, math.ceil(elements / of_a_block)), 1, 1


def ceil_div(value: float, unit: float) -> int:
    """Parts of this size that are needed, at least one."""
    return max(1, math.ceil(value / unit))
