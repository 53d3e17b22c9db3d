"""The kernels of one step, as PyTorch's profiler records them.

The profiler can drop kernels at the beginning of a profile, because the GPU's clock seems to lie before it, and drops more the
older the process is (pytorch issue 192021). So kernels that no network uses go right before the step: if some of them were
recorded, all of the step's were. If none was, the step is profiled again after a wait in the profile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch.profiler import ProfilerActivity, profile

from ....errors import InputError
from ..kernel_files import KernelFile, kineto_trace
from .running import Step

MARKER = "hypot"
"""In the name of the kernels that go first."""

MARKERS = 64
_FEWEST_LEFT = 16  # with fewer, the next profile may lose them all
_TRIES = 10
_FIRST_WAIT_S = 0.002
_WINDOW_S = 0.002  # the last kernel must lie within the profile

Record = Callable[[Step, float], KernelFile]


class StepProfiler:
    """Profiles steps, one after the other.

    Args:
        record: profiles, after a wait of some seconds, :data:`MARKERS` marker kernels and a step; on the GPU by default.
    """

    def __init__(self, record: Record | None = None) -> None:
        self._record = record or _record_on_the_gpu
        self._wait = 0.0

    def kernels(self, step: Step) -> KernelFile:
        """All kernels of the step.

        Raises:
            RuntimeError: no profile held a marker and a kernel of the step, so that none can be known to be whole.
        """
        for _ in range(_TRIES):
            try:
                file = self._record(step, self._wait)
            except InputError:  # it holds no kernel at all
                self._wait_longer()
                continue
            marked = file.table["kernel"].str.contains(MARKER)
            left = int(marked.sum())
            if left < _FEWEST_LEFT:
                self._wait_longer()
            if 0 < left < len(marked):
                return replace(file, table=file.table[~marked].reset_index(drop=True))
        raise RuntimeError("the profiler lost the beginning of every profile")

    def _wait_longer(self) -> None:
        self._wait = 2 * self._wait + _FIRST_WAIT_S


def _record_on_the_gpu(step: Step, wait: float) -> KernelFile:
    marker = torch.ones(64, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        time.sleep(wait)
        for _ in range(MARKERS):
            torch.hypot(marker, marker)
        torch.cuda.synchronize()
        step()
        torch.cuda.synchronize()
        time.sleep(_WINDOW_S)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return kineto_trace.read(path.read_text("utf-8", errors="replace"), "the profile")
