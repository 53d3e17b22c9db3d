"""What the driver tells of the processes on its GPUs, and the page of it."""

import pwd
import time
from dataclasses import replace
from typing import Any

import pynvml
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from epochcast.agent import processes
from epochcast.agent.processes import GpuProcess, ProcessCollector, ProcessWatcher

ID = "0123456789abcdef" * 4
NO_SUCH_PID = 2**30  # beyond the largest that Linux gives out
GIB = 1 << 30


def page(watcher: ProcessWatcher) -> str:
    registry = CollectorRegistry()
    registry.register(ProcessCollector(watcher))
    return generate_latest(registry).decode()


def test_processes_of_all_gpus(nvml: Any, proc: Any) -> None:
    proc.add(11, cgroup=f"0::/system.slice/docker-{ID}.scope\n")
    proc.add(12, name="trainer")
    nvml.running = {0: [(11, 2 * GIB), (12, GIB)], 1: [(11, 3 * GIB)]}
    now = int(time.time() * 1e6)
    nvml.samples = {0: [(11, now, 40), (11, now + 1, 60)], 1: [(11, now, 10)]}
    watcher = ProcessWatcher(1.0, proc.root, users=True)
    assert watcher.look()
    root = pwd.getpwuid(0).pw_name
    container = GpuProcess("0", "GPU-0", 11, "python", root, ID, "", "", 2 * GIB, 0.5)
    assert watcher.processes() == [
        container,
        GpuProcess("0", "GPU-0", 12, "trainer", root, "", "", "", GIB, 0.0),
        replace(container, gpu="1", uuid="GPU-1", memory_bytes=3 * GIB, sm_utilization=0.1),
    ]
    assert watcher.reason == ""
    assert watcher.errors == 0


def test_utilization_is_of_the_time_since_the_last_look(nvml: Any, proc: Any) -> None:
    proc.add(11)
    nvml.running = {0: [(11, GIB)]}
    before = time.time()
    now = int(before * 1e6)
    nvml.samples = {0: [(11, now, 80), (11, 0, 7), (11, now - 60_000_000, 20), (11, now + 5, 4_294_967)]}
    watcher = ProcessWatcher(2.0, proc.root)
    watcher.look()
    assert nvml.asked_since[0] == pytest.approx((before - 2.0) * 1e6, abs=1.9e6), "not what the driver kept from long ago"
    assert [seen.sm_utilization for seen in watcher.processes()] == [0.8], "neither unfilled nor old entries nor nonsense count"
    watcher.look()
    assert nvml.asked_since[1] == now + 5
    assert [seen.sm_utilization for seen in watcher.processes()] == [0.0]


@pytest.mark.parametrize(
    ("answer", "share", "errors"),
    [
        (pynvml.NVML_ERROR_NOT_FOUND, 0.0, 0),
        (pynvml.NVML_SUCCESS, 0.0, 0),
        (pynvml.NVML_ERROR_NOT_SUPPORTED, None, 0),
        (pynvml.NVML_ERROR_UNKNOWN, None, 1),
    ],
)
def test_utilization_that_is_not_told(nvml: Any, proc: Any, answer: int, share: float | None, errors: int) -> None:
    proc.add(11)
    nvml.running = {0: [(11, GIB)]}
    nvml.samples = {0: answer}
    watcher = ProcessWatcher(1.0, proc.root)
    watcher.look()
    assert [seen.sm_utilization for seen in watcher.processes()] == [share]
    assert watcher.errors == errors


def test_in_a_pid_namespace_of_its_own_no_process_is_given_a_strangers_name(nvml: Any, proc: Any) -> None:
    proc.namespace("pid:[4026532999]")
    proc.add(11, name="innocent")
    nvml.running = {0: [(11, GIB)]}
    watcher = ProcessWatcher(1.0, proc.root)
    assert watcher.look()
    (seen,) = watcher.processes()
    assert (seen.pid, seen.process, seen.user, seen.memory_bytes) == (11, "", "", GIB)
    assert "PID namespace" in watcher.reason


def test_a_lost_gpu_does_not_hide_the_others(nvml: Any, proc: Any, caplog: pytest.LogCaptureFixture) -> None:
    proc.add(11)
    nvml.running = {0: pynvml.NVML_ERROR_GPU_IS_LOST, 1: [(11, GIB)]}
    watcher = ProcessWatcher(1.0, proc.root)
    for _ in range(3):
        assert watcher.look()
    assert [seen.gpu for seen in watcher.processes()] == ["1"]
    assert watcher.errors == 3
    assert watcher.reason.startswith("GPU 0 does not answer")
    assert len(caplog.records) == 1, "said once, counted each time"


def test_without_a_driver_there_are_no_rows_and_a_reason(nvml: Any, proc: Any) -> None:
    nvml.down = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    watcher = ProcessWatcher(1.0, proc.root)
    assert not watcher.look()
    assert watcher.processes() == []
    assert watcher.errors == 1
    assert watcher.reason.startswith("the NVIDIA driver does not answer")


def test_a_driver_without_gpus_is_no_failure(nvml: Any, proc: Any) -> None:
    watcher = ProcessWatcher(1.0, proc.root)
    assert watcher.look()
    assert watcher.processes() == []
    assert watcher.reason == ""


def test_what_was_seen_does_not_outlive_a_driver_that_hangs(nvml: Any, proc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.add(11)
    nvml.running = {0: [(11, GIB)]}
    watcher = ProcessWatcher(1.0, proc.root)
    watcher.look()
    assert len(watcher.processes()) == 1
    later = time.monotonic() + 3.5
    monkeypatch.setattr(processes.time, "monotonic", lambda: later)
    assert watcher.processes() == []


def test_memory_that_the_driver_does_not_tell(nvml: Any, proc: Any) -> None:
    proc.add(11)
    nvml.running = {0: [(11, None)]}
    watcher = ProcessWatcher(1.0, proc.root)
    watcher.look()
    assert [seen.memory_bytes for seen in watcher.processes()] == [None]
    assert "process_memory_bytes{" not in page(watcher)


def test_a_driver_that_fails_is_let_go_so_that_it_can_start_afresh(
    nvml: Any, proc: Any, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.setattr(processes, "FIRST_RETRY_S", 0.05)
    proc.add(11)
    nvml.running = {0: pynvml.NVML_ERROR_UNKNOWN}
    watcher = ProcessWatcher(0.01, proc.root)
    watcher.start()
    try:
        until(lambda: watcher.errors > 0 and nvml.held == 0)
        nvml.running = {0: [(11, GIB)]}
        until(lambda: watcher.reason == "" and len(nvml.asked_since) > 0)
    finally:
        watcher.stop()
    assert nvml.held == 0


@pytest.mark.parametrize("users", [True, False])
def test_the_page(nvml: Any, proc: Any, users: bool) -> None:
    proc.add(11, name='say "hi"', cgroup=f"0::/system.slice/slurmstepd.scope/job_4711/step_0/libpod-{ID}.scope\n")
    nvml.running = {0: [(11, GIB)]}
    watcher = ProcessWatcher(1.0, proc.root, users=users)
    watcher.look()
    root = pwd.getpwuid(0).pw_name if users else ""
    labels = f'{{container="{ID}",gpu="0",pid="11",pod="",process="say \\"hi\\"",slurm_job="4711",user="{root}",uuid="GPU-0"}}'
    text = page(watcher)
    assert f"epochcast_gpu_process_memory_bytes{labels} 1.073741824e+09\n" in text
    assert f"epochcast_gpu_process_sm_utilization_ratio{labels} 0.0\n" in text
    assert "epochcast_agent_process_errors_total 0.0\n" in text
    assert "hunter2" not in text
    assert "of-environ" not in text
