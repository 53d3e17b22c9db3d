"""A folder like /proc, and a watcher that has looked once."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pynvml
import pytest

from epochcast.agent.processes import ProcessWatcher


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


@pytest.fixture
def watch(nvml_driver: Any, proc: FakeProc) -> Iterator[Callable[..., ProcessWatcher]]:
    """Look once at a driver in this scenario (its calls are pynvml's own, its library is a stub)."""

    def look(scenario: str, interval: float = 1.0, users: bool = False) -> ProcessWatcher:
        nvml_driver(scenario)
        watcher = ProcessWatcher(interval, proc.root, users=users)
        watcher.look()
        return watcher

    yield look
    with suppress(pynvml.NVMLError):
        pynvml.nvmlShutdown()
