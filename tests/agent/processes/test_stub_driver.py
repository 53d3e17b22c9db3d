"""The watcher over the true binding and a stub libnvidia-ml."""

import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest

from epochcast.agent.processes import HOST_PID_NAMESPACE, ProcessWatcher

NO_SUCH_PID = 2**30  # beyond the largest that Linux gives out
GIB = 1 << 30


@pytest.fixture
def watcher(nvml_driver: Any) -> Iterator[ProcessWatcher]:
    yield ProcessWatcher(1.0, users=True)
    pynvml.nvmlShutdown()


@pytest.fixture
def trainer() -> Iterator[int]:
    """A process to be attributed."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def test_a_process_on_a_gpu(watcher: ProcessWatcher, nvml_driver: Any, trainer: int) -> None:
    nvml_driver(f"gpus 2\npid 1 {trainer} {GIB} 37\npid 1 {NO_SUCH_PID} {GIB} 5\n")
    assert (watcher.look(), watcher.errors) == (True, 0)
    if str(Path("/proc/self/ns/pid").readlink()) != HOST_PID_NAMESPACE:
        pytest.skip(f"on this machine {watcher.reason}")
    (process,) = watcher.processes()
    assert (process.gpu, process.pid, process.process, process.memory_bytes) == ("1", trainer, "sleep", GIB)
    assert process.user == pwd.getpwuid(os.getuid()).pw_name
    assert process.sm_utilization == pytest.approx(0.37)


def test_processes_of_instances(watcher: ProcessWatcher, nvml_driver: Any, trainer: int) -> None:
    nvml_driver(f"gpus 1\nmig 0 3:1g.18gb:2 7:3g.71gb\npid 0 {trainer} {GIB} 37\n")
    assert (watcher.look(), watcher.errors) == (True, 0)
    # The stub lists a GPU's processes for each of its instances.
    seen = watcher.processes()
    assert [(process.gpu, process.memory_bytes, process.sm_utilization) for process in seen] == [
        ("0.3", GIB, None),
        ("0.7", GIB, None),
    ]
    assert all(process.uuid.startswith("MIG-") for process in seen)


def test_a_driver_that_refuses(watcher: ProcessWatcher, nvml_driver: Any) -> None:
    nvml_driver("gpus 1\nfail nvmlDeviceGetComputeRunningProcesses_v3 4 0\n")
    assert (watcher.look(), watcher.errors, watcher.processes()) == (False, 1, [])
    assert "GPU 0 does not answer: Insufficient Permissions" in watcher.reason
