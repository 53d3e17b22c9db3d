"""A folder like /proc, and the driver's functions that tell of processes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

NO_INSTANCE = 0xFFFFFFFF


class FakeProc:
    """A folder like ``/proc``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.namespace("pid:[4026531836]")

    def namespace(self, name: str) -> None:
        link = self.root / "self" / "ns" / "pid"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(name)

    def add(self, pid: int, name: str = "python", uid: int = 0, cgroup: str = "0::/\n") -> None:
        folder = self.root / str(pid)
        folder.mkdir()
        (folder / "status").write_text(f"Name:\t{name}\nUmask:\t0022\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (folder / "cgroup").write_text(cgroup)
        (folder / "cmdline").write_text("train.py --password=hunter2")
        (folder / "environ").write_text("SLURM_JOB_ID=of-environ\0AWS_SECRET=hunter2\0")


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path)


class FakeNvml:
    """GPUs by index: processes (pid, bytes) and samples (pid, stamp, percent) of each, or the error that it answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.down: int | None = None
        self.held = 0
        self.running: dict[int, list[tuple[int, int | None]] | int] = {}
        self.samples: dict[int, list[tuple[int, int, int]] | int] = {}
        self.asked_since: list[int] = []
        for name in (
            "nvmlInit",
            "nvmlShutdown",
            "nvmlDeviceGetCount",
            "nvmlDeviceGetMigMode",
            "nvmlDeviceGetComputeRunningProcesses",
            "nvmlDeviceGetProcessUtilization",
        ):
            monkeypatch.setattr(pynvml, name, getattr(self, name))
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: index)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetUUID", lambda index: f"GPU-{index}")

    def nvmlInit(self) -> None:  # noqa: N802 NVML's own name, as below
        if self.down is not None:
            raise pynvml.NVMLError(self.down)
        self.held += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.held -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        assert self.held == 1
        return len(self.running)

    def nvmlDeviceGetMigMode(self, index: int) -> list[int]:  # noqa: N802
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def nvmlDeviceGetComputeRunningProcesses(self, index: int) -> list[Any]:  # noqa: N802
        running = self.running[index]
        if isinstance(running, int):
            raise pynvml.NVMLError(running)
        return [
            SimpleNamespace(pid=pid, usedGpuMemory=used, gpuInstanceId=NO_INSTANCE, computeInstanceId=NO_INSTANCE)
            for pid, used in running
        ]

    def nvmlDeviceGetProcessUtilization(self, index: int, since: int) -> list[Any]:  # noqa: N802
        self.asked_since.append(since)
        samples = self.samples.get(index, pynvml.NVML_ERROR_NOT_FOUND)
        if isinstance(samples, int):
            raise pynvml.NVMLError(samples)
        return [SimpleNamespace(pid=pid, timeStamp=stamp, smUtil=percent) for pid, stamp, percent in samples]


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    return FakeNvml(monkeypatch)
