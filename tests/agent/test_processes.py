import json
import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from epochcast.agent import processes
from epochcast.agent.processes import GpuProcess, Owner, ProcessCollector, ProcessWatcher, read_owner

ID = "0123456789abcdef" * 4
INNER = "fedcba9876543210" * 4
POD = "12345678-1234-1234-1234-1234567890ab"
NO_INSTANCE = 0xFFFFFFFF
NO_SUCH_PID = 2**30  # beyond the largest that Linux gives out
GIB = 1 << 30


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
        (folder / "environ").write_text("SLURM_JOB_ID=666\0AWS_SECRET=hunter2\0")


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


# ---- what /proc tells


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        # plain processes of a login session and of a service
        ("0::/user.slice/user-1000.slice/session-2.scope\n", Owner()),
        ("0::/system.slice/trainer.service\n", Owner()),
        # Docker: version 1 with cgroupfs, version 2 with systemd, seen from a cgroup namespace
        (f"12:devices:/docker/{ID}\n11:memory:/docker/{ID}\n0::/\n", Owner(container=ID)),
        (f"0::/system.slice/docker-{ID}.scope\n", Owner(container=ID)),
        (f"0::/../../docker-{ID}.scope/init\n", Owner(container=ID)),
        # Podman, without root
        (
            f"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope/container\n",
            Owner(container=ID),
        ),
        # containerd by itself (nerdctl)
        (f"0::/system.slice/nerdctl-{ID}.scope\n", Owner(container=ID)),
        # Kubernetes: containerd with cgroupfs, containerd with systemd, CRI-O, a pod of a node's own manifests
        (f"5:devices:/kubepods/burstable/pod{POD}/{ID}\n", Owner(container=ID, pod=POD)),
        (
            f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{POD.replace('-', '_')}.slice"
            f"/cri-containerd-{ID}.scope\n",
            Owner(container=ID, pod=POD),
        ),
        (
            f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/crio-{ID}.scope/container\n",
            Owner(container=ID, pod=POD),
        ),
        (f"0::/kubepods/burstable/pod{ID[:32]}/{ID}\n", Owner(container=ID, pod=ID[:32])),
        # a container within a pod's container
        (f"0::/kubepods/pod{POD}/{ID}/docker/{INNER}\n", Owner(container=INNER, pod=POD)),
        # Slurm: version 1, version 1 with a node name, version 2, and a container within a job
        ("9:memory:/slurm/uid_1000/job_4711/step_0/task_0\n", Owner(slurm_job="4711")),
        ("9:memory:/slurm_node07/uid_1000/job_4711/step_batch\n", Owner(slurm_job="4711")),
        ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", Owner(slurm_job="4711")),
        ("0::/system.slice/node07_slurmstepd.scope/job_4711/step_0/user/task_0\n", Owner(slurm_job="4711")),
        (
            f"0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0/libpod-{ID}.scope\n",
            Owner(container=ID, slurm_job="4711"),
        ),
        # names that only look like one
        ("0::/user.slice/job_12/backup\n", Owner()),
        (f"0::/system.slice/docker-{ID}0.scope\n", Owner()),
        (f"0::/system.slice/docker-{ID[:12]}.scope\n", Owner()),
        ("", Owner()),
    ],
)
def test_control_groups(proc: FakeProc, cgroup: str, expected: Owner) -> None:
    proc.add(7, cgroup=cgroup)
    root = pwd.getpwuid(0).pw_name
    assert read_owner(7, proc.root) == expected._replace(process="python", user=root)


def test_a_user_without_a_name_is_its_number(proc: FakeProc) -> None:
    proc.add(7, uid=3_999_999_999)
    owner = read_owner(7, proc.root)
    assert owner is not None
    assert owner.user == "3999999999"


def test_odd_process_names_are_kept(proc: FakeProc) -> None:
    proc.add(7, name="a:\tb")
    (proc.root / "8").mkdir()
    (proc.root / "8" / "status").write_bytes(b"Name:\t\xff\xfe\nUid:\tnone\n")
    (proc.root / "8" / "cgroup").write_text("")
    assert read_owner(7, proc.root).process == "a:\tb"  # type: ignore[union-attr]
    assert read_owner(8, proc.root) == Owner(process="��")


def test_gone_and_hidden_processes_are_told_apart(proc: FakeProc) -> None:
    assert read_owner(NO_SUCH_PID, proc.root) is None
    assert read_owner(2**32 - 1, proc.root) is None
    assert read_owner(os.getpid(), proc.root) == Owner(), "it runs, but this /proc does not show it"


def test_this_very_process(proc: FakeProc) -> None:
    owner = read_owner(os.getpid(), Path("/proc"))
    assert owner is not None
    assert owner.process == Path("/proc/self/comm").read_text().strip()
    assert owner.user == pwd.getpwuid(os.getuid()).pw_name


# ---- what the driver tells


def test_processes_of_all_gpus(nvml: FakeNvml, proc: FakeProc) -> None:
    proc.add(11, cgroup=f"0::/system.slice/docker-{ID}.scope\n")
    proc.add(12, name="trainer")
    nvml.running = {0: [(11, 2 * GIB), (12, GIB)], 1: [(11, 3 * GIB)]}
    now = int(time.time() * 1e6)
    nvml.samples = {0: [(11, now, 40), (11, now + 1, 60)], 1: [(11, now, 10)]}
    watcher = ProcessWatcher(1.0, proc.root)
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


def test_utilization_is_of_the_time_since_the_last_look(nvml: FakeNvml, proc: FakeProc) -> None:
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
def test_utilization_that_is_not_told(nvml: FakeNvml, proc: FakeProc, answer: int, share: float | None, errors: int) -> None:
    proc.add(11)
    nvml.running = {0: [(11, GIB)]}
    nvml.samples = {0: answer}
    watcher = ProcessWatcher(1.0, proc.root)
    watcher.look()
    assert [seen.sm_utilization for seen in watcher.processes()] == [share]
    assert watcher.errors == errors


def test_a_process_that_ended_meanwhile_is_left_out(nvml: FakeNvml, proc: FakeProc) -> None:
    proc.add(11)
    nvml.running = {0: [(11, GIB), (NO_SUCH_PID, GIB)]}
    watcher = ProcessWatcher(1.0, proc.root)
    watcher.look()
    assert [seen.pid for seen in watcher.processes()] == [11]


def test_in_a_pid_namespace_of_its_own_no_process_is_given_a_strangers_name(nvml: FakeNvml, proc: FakeProc) -> None:
    proc.namespace("pid:[4026532999]")
    proc.add(11, name="innocent")
    nvml.running = {0: [(11, GIB)]}
    watcher = ProcessWatcher(1.0, proc.root)
    assert watcher.look()
    (seen,) = watcher.processes()
    assert (seen.pid, seen.process, seen.user, seen.memory_bytes) == (11, "", "", GIB)
    assert "PID namespace" in watcher.reason


def test_a_lost_gpu_does_not_hide_the_others(nvml: FakeNvml, proc: FakeProc, caplog: pytest.LogCaptureFixture) -> None:
    proc.add(11)
    nvml.running = {0: pynvml.NVML_ERROR_GPU_IS_LOST, 1: [(11, GIB)]}
    watcher = ProcessWatcher(1.0, proc.root)
    for _ in range(3):
        assert watcher.look()
    assert [seen.gpu for seen in watcher.processes()] == ["1"]
    assert watcher.errors == 3
    assert watcher.reason.startswith("GPU 0 does not tell")
    assert len(caplog.records) == 1, "said once, counted each time"


def test_without_a_driver_there_are_no_rows_and_a_reason(nvml: FakeNvml, proc: FakeProc) -> None:
    nvml.down = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
    watcher = ProcessWatcher(1.0, proc.root)
    assert not watcher.look()
    assert watcher.processes() == []
    assert watcher.errors == 1
    assert watcher.reason.startswith("the NVIDIA driver does not answer")


def test_a_driver_without_gpus_is_no_failure(nvml: FakeNvml, proc: FakeProc) -> None:
    watcher = ProcessWatcher(1.0, proc.root)
    assert watcher.look()
    assert watcher.processes() == []
    assert watcher.reason == ""


def test_what_was_seen_does_not_outlive_a_driver_that_hangs(
    nvml: FakeNvml, proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.add(11)
    nvml.running = {0: [(11, GIB)]}
    watcher = ProcessWatcher(1.0, proc.root)
    watcher.look()
    assert len(watcher.processes()) == 1
    later = time.monotonic() + 3.5
    monkeypatch.setattr(processes.time, "monotonic", lambda: later)
    assert watcher.processes() == []


def test_memory_that_the_driver_does_not_tell(nvml: FakeNvml, proc: FakeProc) -> None:
    proc.add(11)
    nvml.running = {0: [(11, None)]}
    watcher = ProcessWatcher(1.0, proc.root)
    watcher.look()
    assert [seen.memory_bytes for seen in watcher.processes()] == [None]
    assert "process_memory_bytes{" not in page(watcher)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_its_thread_looks_again_and_again_and_gives_the_driver_back(nvml: FakeNvml, proc: FakeProc) -> None:
    proc.add(11)
    nvml.running = {0: [(11, GIB)]}
    watcher = ProcessWatcher(0.01, proc.root)
    watcher.start()
    wait_for(lambda: len(nvml.asked_since) > 3)
    watcher.stop()
    assert nvml.held == 0


def test_a_driver_that_fails_is_let_go_so_that_it_can_start_afresh(
    nvml: FakeNvml, proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "FIRST_RETRY_S", 0.05)
    proc.add(11)
    nvml.running = {0: pynvml.NVML_ERROR_UNKNOWN}
    watcher = ProcessWatcher(0.01, proc.root)
    watcher.start()
    try:
        wait_for(lambda: watcher.errors > 0 and nvml.held == 0)
        nvml.running = {0: [(11, GIB)]}
        wait_for(lambda: watcher.reason == "" and len(nvml.asked_since) > 0)
    finally:
        watcher.stop()
    assert nvml.held == 0


# ---- what is exported


def page(watcher: ProcessWatcher) -> str:
    registry = CollectorRegistry()
    registry.register(ProcessCollector(watcher))
    return generate_latest(registry).decode()


def test_the_page(nvml: FakeNvml, proc: FakeProc) -> None:
    proc.add(11, name='say "hi"', cgroup=f"0::/system.slice/slurmstepd.scope/job_4711/step_0/libpod-{ID}.scope\n")
    nvml.running = {0: [(11, GIB)]}
    watcher = ProcessWatcher(1.0, proc.root)
    watcher.look()
    root = pwd.getpwuid(0).pw_name
    labels = f'{{container="{ID}",gpu="0",pid="11",pod="",process="say \\"hi\\"",slurm_job="4711",user="{root}",uuid="GPU-0"}}'
    text = page(watcher)
    assert f"epochcast_gpu_process_memory_bytes{labels} 1.073741824e+09\n" in text
    assert f"epochcast_gpu_process_sm_utilization_ratio{labels} 0.0\n" in text
    assert "epochcast_agent_process_errors_total 0.0\n" in text
    assert "hunter2" not in text
    assert "666" not in text


# ---- the stub driver

SCRIPT = """
import dataclasses, json, sys, time
from epochcast.agent.processes import ProcessWatcher
watcher = ProcessWatcher(1.0)
looks = []
for _ in range(int(sys.argv[1])):
    answered = watcher.look()
    looks.append([answered, watcher.errors, watcher.reason, [dataclasses.asdict(seen) for seen in watcher.processes()]])
print(json.dumps(looks))
"""


@pytest.fixture
def look_at_stub(nvml_library: Path, tmp_path: Path) -> Callable[[str], Any]:
    """Look once in a process of its own that finds the stub driver with this scenario."""

    def look(scenario: str) -> Any:
        path = tmp_path / "scenario"
        path.write_text(scenario)
        environment = {**os.environ, "LD_LIBRARY_PATH": str(nvml_library.parent), "NVML_STUB_SCENARIO": str(path)}
        command = [sys.executable, "-c", SCRIPT, "1"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)[0]

    return look


@pytest.fixture
def trainer() -> Iterator[int]:
    """A process to be attributed."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def test_stub_driver(look_at_stub: Callable[[str], Any], trainer: int) -> None:
    answered, errors, reason, seen = look_at_stub(f"gpus 2\npid 1 {trainer} {GIB} 37\npid 1 {NO_SUCH_PID} {GIB} 5\n")
    assert (answered, errors) == (True, 0)
    if reason:
        pytest.skip(f"on this machine {reason}")
    (process,) = seen
    assert (process["gpu"], process["pid"], process["process"]) == ("1", trainer, "sleep")
    assert process["user"] == pwd.getpwuid(os.getuid()).pw_name
    assert process["memory_bytes"] == GIB
    assert process["sm_utilization"] == pytest.approx(0.37)


def test_stub_driver_with_instances(look_at_stub: Callable[[str], Any], trainer: int) -> None:
    answered, errors, _, seen = look_at_stub(f"gpus 1\nmig 0 3:1g.18gb:2 7:3g.71gb\npid 0 {trainer} {GIB} 37\n")
    assert (answered, errors) == (True, 0)
    # The stub lists a GPU's processes for each of its instances.
    assert [(process["gpu"], process["memory_bytes"], process["sm_utilization"]) for process in seen] == [
        ("0.3", GIB, None),
        ("0.7", GIB, None),
    ]
    assert all(process["uuid"].startswith("MIG-") for process in seen)


def test_stub_driver_that_refuses(look_at_stub: Callable[[str], Any]) -> None:
    answered, errors, reason, seen = look_at_stub("gpus 1\nfail nvmlDeviceGetComputeRunningProcesses_v3 4 0\n")
    assert (answered, errors, seen) == (False, 1, [])
    assert "Insufficient Permissions" in reason or "GPU 0 does not tell" in reason


def test_no_driver_at_all(tmp_path: Path) -> None:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT, "2"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    looks = json.loads(done.stdout)
    if looks[0][0]:
        pytest.skip("this machine has an NVIDIA driver")
    assert [look[1] for look in looks] == [1, 2]
    assert "the NVIDIA driver does not answer" in looks[0][2]
