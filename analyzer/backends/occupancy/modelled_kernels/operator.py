"""One operator of a graph, the GPU that it runs on, and the kernels that it launches there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from epochcast.analyzer.backends.occupancy.configuration import WIDTHS
from epochcast.analyzer.backends.occupancy.graph.computation_graph import HYPER_PARAMETERS, SIZES, ComputationGraph
from epochcast.analyzer.backends.occupancy.modelled_kernels.launch_configurations import (
    LaunchConfiguration,
    LaunchConfigurations,
    launch_configurations,
)
from epochcast.analyzer.backends.occupancy.modelled_kernels.occupancy import GpuLimits, limits_of
from epochcast.regressor import Gpu

_COPYING = ("copy", "concatenate", "embedding", "index", "scatter")
_CREATING = ("create", "random")


def ceil_div(value: float, unit: float) -> int:
    """Parts of this size that are needed, at least one."""
    return max(1, math.ceil(value / unit))


@dataclass(frozen=True)
class Kernel:
    """``launches`` launches alike of ``grid`` blocks: bytes that one moves, and seconds of its arithmetic."""

    configuration: LaunchConfiguration
    grid: tuple[int, int, int]
    moved: float
    computing: float = 0.0
    launches: int = 1


@dataclass(frozen=True)
class ModelledOperator:
    """One node of a graph, sizes in elements; ``sources`` are words of what it reads from, ``width`` an element's bytes."""

    word: str
    hyper: Mapping[str, float]
    read: float
    written: float
    weights: float
    samples: int
    sources: tuple[str, ...]
    width: int

    @classmethod
    def of(cls, graph: ComputationGraph, precision: str) -> Iterator[ModelledOperator]:
        """All of a graph, in its order."""
        for node, word in enumerate(graph.words):
            sizes = dict(zip(SIZES, graph.sizes[node].tolist(), strict=True))
            hyper = dict(zip(HYPER_PARAMETERS, graph.hyper_parameters[node].tolist(), strict=True))
            sources = tuple(graph.words[source] for source in graph.edges[0, graph.edges[1] == node])
            width = WIDTHS[precision] if graph.floating[node] else 8
            yield cls(word, hyper, sizes["read"], max(1.0, sizes["written"]), sizes["weights"], graph.batch, sources, width)

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
    """The GPU that a graph is to run on, and the precision; ``traced`` takes the place of the shipped configurations."""

    gpu: Gpu
    precision: str
    traced: LaunchConfigurations | None = None

    @cached_property
    def limits(self) -> GpuLimits:
        """What its SMs hold; raises InputError where that is not known."""
        return limits_of(self.gpu)

    @cached_property
    def configurations(self) -> LaunchConfigurations:
        """Launch configurations for it."""
        return self.traced or launch_configurations(self.limits)

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

    def strided(self, operator: ModelledOperator, elements: float, moved: float | None = None) -> Kernel:
        """Over elements that do not lie side by side; ``moved`` in bytes, None: each is read and written."""
        of_a_thread = 2 if operator.width >= 4 else 4
        moved = 2 * operator.width * elements if moved is None else moved
        return self.flat("elementwise_strided", elements, of_a_thread, moved)

    def seconds(self, kernel: Kernel) -> float:
        """The arithmetic or the memory, whichever takes longer, and the shortest kernel; no less than any recorded launch."""
        traced = self.configurations
        is_strided = kernel.configuration.name == "elementwise_strided"
        share = traced.strided_bandwidth_share if is_strided else traced.bandwidth_share
        needed = traced.shortest_kernel + max(kernel.computing, kernel.moved / (self.gpu.memory_bandwidth * share))
        return max(kernel.configuration.shortest, needed)
