"""Nsight Compute, which replays each kernel and counts the warps that were active: the label of the DNN-occu paper."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from ....errors import InputError
from ..configuration import Configuration
from ..kernel_files import ncu_csv

METRICS = (
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__maximum_warps_per_active_cycle_pct",
    "gpu__time_duration.sum",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic",
)
MOST_LAUNCHES = 400
_PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute")
_NO_PERMISSION = "ERR_NVGPUCTRPERM"
_LONGEST_S = 180.0


def find_ncu() -> str:
    """Path of the command.

    Raises:
        InputError: it is not installed.
    """
    found = shutil.which("ncu") or next((one for one in _PLACES[:1] if Path(one).exists()), "")
    if not found:
        versions = sorted(Path(_PLACES[1]).glob("*/ncu"))
        found = str(versions[-1]) if versions else ""
    if not found:
        raise InputError("ncu was not found; install Nsight Compute and put ncu on the PATH, or leave out --ncu")
    return found


class Ncu:
    """Profiles one step of a configuration in a process of its own.

    Args:
        command: path of ncu.

    Attributes:
        problem: why it cannot be used any more; empty if it can.
    """

    def __init__(self, command: str) -> None:
        self._command, self.problem = command, ""

    def kernels(self, configuration: Configuration, launches: int) -> pd.DataFrame:
        """The kernels of one step with their achieved occupancy, a kernel table; with the names of GPUs empty.

        Raises:
            RuntimeError: ncu failed, took too long, or the step has more launches than :data:`MOST_LAUNCHES`.
        """
        if launches > MOST_LAUNCHES:
            raise RuntimeError(f"steps of more than {MOST_LAUNCHES} launches take ncu too long")
        with TemporaryDirectory() as folder:
            log = Path(folder) / "ncu.csv"
            said = self._run(configuration, log)
            text = log.read_text("utf-8", errors="replace") if log.exists() else ""
        if _NO_PERMISSION in text + said:
            self.problem = (
                "the driver lets only administrators read counters, so ncu measured nothing (NVIDIA's page on "
                f"{_NO_PERMISSION} tells how to allow it)"
            )
            raise RuntimeError("ncu may not read the GPU's counters")
        try:
            return ncu_csv.read(text, "the log of ncu").table
        except InputError as error:
            last = " ".join(said.split())[-100:]
            raise RuntimeError(f"ncu wrote no table of kernels ({last or error})") from error

    def _run(self, configuration: Configuration, log: Path) -> str:
        """What the command wrote to standard output and error."""
        process = subprocess.Popen(
            [*ncu_options(self._command, log), *_target(configuration)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            process_group=0,
        )
        try:
            said, _ = process.communicate(timeout=_LONGEST_S)
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"ncu took longer than {_LONGEST_S:.0f} s") from error
        finally:
            with suppress(ProcessLookupError):  # what it started too
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return said


def ncu_options(command: str, log: Path) -> list[str]:
    """The command with its options: clocks and caches are left as they are, which is how the step runs otherwise."""
    metrics = ",".join(METRICS)
    controls = ["--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off"]
    return [command, "--csv", "--page", "raw", "--print-units", "base", "--metrics", metrics, *controls, "--log-file", str(log)]


def _target(configuration: Configuration) -> Sequence[str]:
    """The program that ncu runs, in which packages are found where they are found here."""
    module = f"{__package__}.ncu_step"
    return [sys.executable, "-m", module, json.dumps(asdict(configuration))]
