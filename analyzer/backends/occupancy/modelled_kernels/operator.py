"""One operator of a graph, the GPU that it runs on, and the kernels that it launches there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from epochcast.analyzer.backends.occupancy.launch.gpu_limits import GpuLimits
from epochcast.analyzer.backends.occupancy.modelled_kernels.launch_configurations import (
    LaunchConfiguration,
    LaunchConfigurations,
)
from epochcast.regressor import Gpu

_COPYING = ("copy", "concatenate", "embedding", "index", "scatter")
_CREATING = ("create", "random")


def ceil_div(value: float, unit: float) -> int:
    """Parts of this size that are needed, at least one."""
    return max(1, math.ceil(value / unit))


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
    grid: tuple[int, int, int]
    moved: float
    computing: float = 0.0
    launches: int = 1


@dataclass(frozen=True)
class ModelledOperator:
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
        """Bytes that it reads and writes; of what it copies it reads as much as it writes."""
        if self.word in _COPYING:
            return 2 * self.width * self.written
        return self.width * (self.written if self.word in _CREATING else self.read + self.written + self.weights)


@dataclass(frozen=True)
class Target:
    """The GPU that a graph is to run on and how.

    Args:
        gpu: of the catalogue.
        limits: what its SMs hold.
        precision: of WIDTHS.
        configurations: launch configurations for it.
    """

    gpu: Gpu
    limits: GpuLimits
    precision: str
    configurations: LaunchConfigurations

    @property
    def arithmetic(self) -> str:
        """Of matrix products: PyTorch keeps TensorFloat-32 off for them by default."""
        return "fp32" if self.precision == "fp32" else "half"

    @property
    def convolution_arithmetic(self) -> str:
        """Of cuDNN's convolutions and recurrent layers: PyTorch lets them use TensorFloat-32 where there is some."""
        return "tf32" if self.arithmetic == "fp32" and self.limits.compute_capability >= 8.0 else self.arithmetic

    def products_per_cycle(self, arithmetic: str) -> float:
        """Multiplications with addition of one SM in one cycle, of the next slower arithmetic where it has no such units."""
        gpu, flops = self.gpu, self.gpu.effective_flops
        if arithmetic == "tf32":
            flops = gpu.tf32_tensor_flops or flops
        elif arithmetic == "half":
            flops = gpu.fp16_tensor_flops or gpu.bf16_tensor_flops or gpu.fp16_flops or flops
        return flops / (2.0 * gpu.sm_count * gpu.boost_clock)

    def kernel(self, name: str, grid: tuple[int, int, int], moved: float) -> Kernel:
        """A kernel of this class whose time the memory sets; ``moved`` in bytes."""
        return Kernel(self.configurations.kernels[name], grid, moved)

    def flat(self, name: str, elements: float, of_a_thread: int, moved: float) -> Kernel:
        """The same with a one-dimensional grid, whose threads take so many elements each."""
        return self.kernel(name, (ceil_div(elements, of_a_thread * self.configurations.kernels[name].threads), 1, 1), moved)

    def seconds(self, kernel: Kernel) -> float:
        """The arithmetic or the memory, whichever takes longer, and the shortest kernel; no less than any recorded launch."""
        known, name = self.configurations, kernel.configuration.name
        share = known.strided_bandwidth_share if name == "elementwise_strided" else known.bandwidth_share
        needed = known.shortest_kernel + max(kernel.computing, kernel.moved / (self.gpu.memory_bandwidth * share))
        return max(kernel.configuration.shortest, needed)
