"""What the driver tells of the processes on its GPUs, and the page of it."""

import pwd
import time
from types import SimpleNamespace
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


def test_processes_of_all_gpus(watch: Any, proc: Any) -> None:
    proc.add(11, cgroup=f"0::/system.slice/docker-{ID}.scope\n")
    proc.add(12, name="trainer")
    running = ((0, 11, 2 * GIB, 50), (0, 12, GIB, 0), (1, 11, 3 * GIB, 10), (1, NO_SUCH_PID, GIB, 5))  # which has ended
    watcher = watch(
        "gpus 2\ngpu 1 t4\n" + "".join(f"pid {gpu} {pid} {used} {share}\n" for gpu, pid, used, share in running), users=True
    )
    root = pwd.getpwuid(0).pw_name
    assert watcher.processes() == [
        GpuProcess("0", "GPU-stub-0", 11, "python", root, ID, "", "", 2 * GIB, 0.5),
        GpuProcess("0", "GPU-stub-0", 12, "trainer", root, "", "", "", GIB, 0.0),
        GpuProcess("1", "GPU-stub-1", 11, "python", root, ID, "", "", 3 * GIB, 0.1),
    ]
    assert (watcher.reason, watcher.errors) == ("", 0)


def test_processes_of_instances(watch: Any, proc: Any) -> None:
    proc.add(11)
    watcher = watch(f"gpus 1\nmig 0 3:1g.18gb:2 7:3g.71gb\npid 0 11 {GIB} 37\n")
    # The stub lists a GPU's processes for each of its instances.
    seen = [(process.gpu, process.uuid[:4], process.memory_bytes, process.sm_utilization) for process in watcher.processes()]
    assert seen == [("0.3", "MIG-", GIB, None), ("0.7", "MIG-", GIB, None)]


def test_utilization_is_of_the_time_since_the_last_look(watch: Any, proc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.add(11)
    before = time.time()
    now, asked_since = int(before * 1e6), []
    samples = [(now, 80), (0, 7), (now - 60_000_000, 20), (now + 5, 4_294_967)]

    def answer(_: Any, since: int) -> list[Any]:
        asked_since.append(since)
        return [SimpleNamespace(pid=11, timeStamp=stamp, smUtil=percent) for stamp, percent in samples]

    monkeypatch.setattr(pynvml, "nvmlDeviceGetProcessUtilization", answer)
    watcher = watch(f"gpus 1\npid 0 11 {GIB} 50", interval=2.0)
    assert asked_since[0] == pytest.approx((before - 2.0) * 1e6, abs=1.9e6), "not what the driver kept from long ago"
    assert [seen.sm_utilization for seen in watcher.processes()] == [0.8], "neither unfilled nor old entries nor nonsense count"
    watcher.look()
    assert asked_since[1] == now + 5
    assert [seen.sm_utilization for seen in watcher.processes()] == [0.0]


@pytest.mark.parametrize(
    ("answer", "share", "errors"),
    [
        (pynvml.NVML_ERROR_NOT_FOUND, 0.0, 0),
        (pynvml.NVML_ERROR_NOT_SUPPORTED, None, 0),
        (pynvml.NVML_ERROR_UNKNOWN, None, 1),
    ],
)
def test_utilization_that_is_not_told(watch: Any, proc: Any, answer: int, share: float | None, errors: int) -> None:
    proc.add(11)
    watcher = watch(f"gpus 1\npid 0 11 {GIB} 50\nfail nvmlDeviceGetProcessUtilization {answer} 0")
    assert [seen.sm_utilization for seen in watcher.processes()] == [share]
    assert watcher.errors == errors


def test_in_a_pid_namespace_of_its_own_no_process_is_given_a_strangers_name(watch: Any, proc: Any) -> None:
    proc.namespace("pid:[4026532999]")
    proc.add(11, name="innocent")
    watcher = watch(f"gpus 1\npid 0 11 {GIB} 50")
    (seen,) = watcher.processes()
    assert (seen.pid, seen.process, seen.user, seen.memory_bytes) == (11, "", "", GIB)
    assert "PID namespace" in watcher.reason


def test_a_gpu_that_refuses_does_not_hide_the_others(watch: Any, proc: Any, caplog: pytest.LogCaptureFixture) -> None:
    proc.add(11)
    watcher = watch(f"gpus 2\npid 1 11 {GIB} 50\nfail nvmlDeviceGetComputeRunningProcesses_v3 4 0")
    for _ in range(2):
        assert watcher.look()
    assert [seen.gpu for seen in watcher.processes()] == ["1"]
    assert watcher.errors == 3
    assert watcher.reason == "GPU 0 does not answer: Insufficient Permissions"
    assert len(caplog.records) == 1, "said once, counted each time"


def test_without_a_driver_there_are_no_rows_and_a_reason(watch: Any) -> None:
    watcher = watch("gpus 1\nfail nvmlInit 12 *")
    assert not watcher.look()
    assert (watcher.processes(), watcher.errors) == ([], 2)
    assert watcher.reason.startswith("the NVIDIA driver does not answer")


def test_a_driver_without_gpus_is_no_failure(watch: Any) -> None:
    watcher = watch("gpus 0")
    assert watcher.look()
    assert (watcher.processes(), watcher.reason) == ([], "")


def test_what_was_seen_does_not_outlive_a_driver_that_hangs(watch: Any, proc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.add(11)
    watcher = watch(f"gpus 1\npid 0 11 {GIB} 50")
    assert len(watcher.processes()) == 1
    later = time.monotonic() + 3.5
    monkeypatch.setattr(processes.time, "monotonic", lambda: later)
    assert watcher.processes() == []


def test_memory_that_the_driver_does_not_tell(watch: Any, proc: Any) -> None:
    proc.add(11)
    watcher = watch(f"gpus 1\npid 0 11 {2**64 - 1} 50")
    assert [seen.memory_bytes for seen in watcher.processes()] == [None]
    assert "process_memory_bytes{" not in page(watcher)


def test_a_driver_that_is_loaded_again_is_let_go_of_and_found_again(
    watch: Any, proc: Any, nvml_driver: Any, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    monkeypatch.setattr(processes, "FIRST_RETRY_S", 0.05)
    proc.add(11)
    watcher = watch(f"gpus 1\npid 0 11 {GIB} 50", interval=0.01)
    watcher.start()
    try:
        # A process that holds the old library gets an error for ever.
        nvml_driver(f"gpus 1\npid 0 11 {GIB} 50\ngeneration 1\nfail nvmlInit 9 *")
        until(lambda: watcher.errors > 1)
        nvml_driver(f"gpus 1\npid 0 11 {GIB} 50\ngeneration 1")
        until(lambda: watcher.reason == "" and watcher.processes())
    finally:
        watcher.stop()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlShutdown()


@pytest.mark.parametrize("users", [True, False])
def test_the_page(watch: Any, proc: Any, users: bool) -> None:
    proc.add(11, name='say "hi"', cgroup=f"0::/system.slice/slurmstepd.scope/job_4711/step_0/libpod-{ID}.scope\n")
    text = page(watch(f"gpus 1\npid 0 11 {GIB} 50", users=users))
    root = pwd.getpwuid(0).pw_name if users else ""
    names = f'container="{ID}",gpu="0",pid="11",pod="",process="say \\"hi\\"",slurm_job="4711",user="{root}",uuid="GPU-stub-0"'
    assert f"epochcast_gpu_process_memory_bytes{{{names}}} 1.073741824e+09\n" in text
    assert f"epochcast_gpu_process_sm_utilization_ratio{{{names}}} 0.5\n" in text
    assert "epochcast_agent_process_errors_total 0.0\n" in text
    assert "hunter2" not in text
    assert "of-environ" not in text
