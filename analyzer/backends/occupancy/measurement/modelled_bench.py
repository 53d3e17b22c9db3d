"""Rows where there is no GPU: kernels are modelled for one, and the step runs on the CPU, which has none.

What comes of it exercises the path from networks to predictors; it measures nothing of the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from .....regressor import Gpu
from ...convmeter.measurement.memory import free_bytes
from ...distributed.operator_time.profile import cpu_name
from ..configuration import Configuration
from ..graph.computation_graph import ComputationGraph
from ..graph_of import graph_of
from ..launch.gpu_limits import limits_of
from ..launch.kernel_table import Aggregate
from ..modelled_kernels.modelled_step import occupancy_of
from .points_file import Measured, label_row
from .running import RunningNetworks
from .steady_loop import run_steadily

_MOST_FLOPS = 4e10  # of a step; with more it would take minutes on a CPU
_MOST_OF_FREE = 0.5

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class ModelledBench:
    """Models the kernels for a GPU, and runs steps that are small enough on the CPU.

    Args:
        gpu: that the kernels are modelled for.
        steady_seconds: how long a configuration runs on the CPU.

    Attributes:
        place: what is the same in all rows.
        gpu: its name in the catalogue.
        labels: the one kind that it gives.

    Raises:
        InputError: occupancy cannot be calculated for the GPU.
    """

    labels = ("modelled",)

    def __init__(self, gpu: Gpu, steady_seconds: float) -> None:
        limits_of(gpu)
        self.gpu, self._modelled_for, self._steady_seconds = gpu.name, gpu, steady_seconds
        threads = torch.get_num_threads()
        device = f"{cpu_name()} ({threads} thread{'s' if threads > 1 else ''})"
        self.place = {"device": device, "software": f"torch {torch.__version__}"}
        self._networks = RunningNetworks("cpu")
        self._graphs: dict[Configuration, ComputationGraph] = {}
        self._not_run = 0

    @property
    def problems(self) -> list[str]:
        """What was not measured, a sentence each."""
        if not self._not_run:
            return []
        return [f"{self._not_run} steps are too large to be run on this CPU; their rows hold modelled figures alone"]

    def measure(self, configuration: Configuration, labels: Sequence[str]) -> Iterator[Measured]:
        """The row of the modelled kernels, with ``host_step_s`` and ``host_memory_bytes`` where the step was run.

        Raises:
            InputError: the network cannot be built or exported.
        """
        one = configuration.one_sample
        if one not in self._graphs:  # a user's own network would be exported for every batch
            self._graphs[one] = graph_of(one)
        graph = self._graphs[one].at_batch(configuration.batch)
        step = occupancy_of(graph, self._modelled_for, configuration.precision)
        occupancy = Aggregate(step.mean, step.time_mean, step.max)
        row = {
            **label_row(configuration, self.gpu, "modelled", occupancy, step.kernels),
            **{name: getattr(step, name) for name in ("step_s", "nvml_utilisation", "memory_bytes")},
        }
        if float(graph.column("flops").sum()) > _MOST_FLOPS or step.memory_bytes > _MOST_OF_FREE * free_bytes("cpu"):
            self._not_run += 1
            yield Measured(row)
            return
        failure: Exception | None = None
        try:
            row |= self._on_the_cpu(configuration)
        except Exception as error:  # a user's network may raise anything; the labels do not depend on it
            failure = error
        yield Measured(row)
        if failure is not None:
            raise failure

    def recover(self) -> None:
        """Free memory after a failure."""
        self._networks.clear()

    def _on_the_cpu(self, configuration: Configuration) -> dict[str, float]:
        """Seconds of a step and by how much the process grew for it; NaN where the system does not tell."""
        self._networks.clear()
        before = held_bytes() if forget_peak() else math.nan
        steady = run_steadily(self._networks.step(configuration), lambda: None, self._steady_seconds, lambda: math.nan)
        return {
            "host_step_s": steady.step_s,
            "step_iqr_s": steady.iqr_s,
            "steps": steady.steps,
            "host_memory_bytes": peak_bytes() - before,
        }


def forget_peak() -> bool:
    """Let the peak be what is held now; whether that could be done."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


def peak_bytes() -> float:
    """The most physical memory that was held at once; NaN if it is unknown."""
    return _field("VmHWM")


def held_bytes() -> float:
    """Physical memory that is held now; NaN if it is unknown."""
    return _field("VmRSS")


def _field(name: str) -> float:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return math.nan
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), math.nan)
