"""Measuring configurations on the GPU at hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .....regressor import Catalog
from ..configuration import Configuration
from ..kernel_files import KernelFile
from ..kernel_files.kernel_file import occupancy_rows
from ..launch.kernel_table import count_skipped, summarise
from .ncu import Ncu
from .points_file import Measured, label_row
from .profiled_step import StepProfiler
from .running import RunningNetworks, Step
from .steady_loop import NvmlUtilisation, run_steadily


class GpuBench:
    """Runs configurations on the current CUDA device.

    Args:
        catalog: of GPUs, which must hold this one.
        steady_seconds: how long each configuration runs before it is profiled.
        ncu: Nsight Compute, where the hardware's own count is wanted too.

    Attributes:
        place: what is the same in all rows.
        gpu: its name in the catalogue.
        labels: kinds that it gives.

    Raises:
        InputError: the catalogue does not hold the GPU.
    """

    def __init__(self, catalog: Catalog, steady_seconds: float, ncu: Ncu | None = None) -> None:
        device = str(torch.cuda.get_device_name())
        self.gpu = catalog.resolve(device).name
        self.labels: tuple[str, ...] = ("launch_config",) if ncu is None else ("launch_config", "ncu")
        versions = f"torch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"
        self.place = {"device": device, "software": versions}
        self._catalog, self._steady_seconds, self._ncu = catalog, steady_seconds, ncu
        self._networks = RunningNetworks("cuda")
        self._profiler = StepProfiler()
        self._utilisation = NvmlUtilisation(f"GPU-{torch.cuda.get_device_properties().uuid}")

    @property
    def problems(self) -> list[str]:
        """What could not be measured of any configuration, a sentence each."""
        return [one for one in (self._utilisation.problem, self._ncu.problem if self._ncu else "") if one]

    def measure(self, configuration: Configuration, labels: Sequence[str]) -> Iterator[Measured]:
        """Rows of the labels asked for.

        Raises:
            RuntimeError: it does not fit into memory, the profiler lost kernels, ncu failed, or whatever the network raises.
        """
        step = self._networks.step(configuration)
        measured = self._steady_and_profiled(configuration, step)
        del step
        if "launch_config" in labels:
            yield measured
        if "ncu" in labels and self._ncu is not None and not self._ncu.problem:
            self._networks.clear()  # ncu runs it in another process
            counted = self._ncu.kernels(configuration, int(measured.row["kernels"])).assign(gpu=self.place["device"])
            kernels = occupancy_rows(KernelFile("", counted), "the log of ncu", self._catalog)
            achieved = summarise(kernels).achieved
            if achieved is None:
                raise RuntimeError("ncu counted no warps")
            launches = kernels.loc[kernels["achieved"].notna(), "count"].sum()
            row = {**measured.row, **label_row(configuration, self.gpu, "ncu", achieved, launches)}
            yield Measured(row, kernels)

    def recover(self) -> None:
        """Free memory after a failure; raises RuntimeError if the GPU no longer answers."""
        self._networks.clear()
        torch.cuda.synchronize()

    def _steady_and_profiled(self, configuration: Configuration, step: Step) -> Measured:
        torch.cuda.reset_peak_memory_stats()
        steady = run_steadily(step, torch.cuda.synchronize, self._steady_seconds, self._utilisation)
        memory = torch.cuda.max_memory_allocated() - self._networks.bytes_of_others(configuration)
        profile = self._profiler.kernels(step)
        kernels = occupancy_rows(profile, "the profile", self._catalog)
        summary = summarise(kernels)
        unknown = int(sum(count_skipped(kernels).values()))
        row: dict[str, Any] = {
            **label_row(configuration, self.gpu, "launch_config", summary.grid, summary.launches + unknown),
            "unknown": unknown,
            "step_s": steady.step_s,
            "step_iqr_s": steady.iqr_s,
            "steps": steady.steps,
            "nvml_utilisation": steady.nvml_utilisation,
            "memory_bytes": memory,
        }
        return Measured(row, kernels)
