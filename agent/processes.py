"""Which processes use each GPU: queried from the driver at most once a second, in its own thread; off by default.

The driver takes milliseconds for a list of processes and holds its lock meanwhile, so no sampler waits for it. A process has
its command name (15 characters), from its control group the container, Slurm job or Kubernetes pod, and, where the
settings say so, its user. Its command line and its environment are never read: they hold secrets.
"""

import logging
import math
import os
import pwd
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pynvml
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

log = logging.getLogger(__name__)

PERCENT = 1e-2
MICRO = 1e-6
# Without an answer NVML is let go for so long, doubling: the driver's library starts afresh only when nobody in the process
# holds it, so it must be free when a source of the agent, which tries every 1, 2, 4 … 60 s, reopens it.
FIRST_RETRY_S = 5.0
LONGEST_RETRY_S = 60.0
# A driver call that hangs must not keep the agent from stopping.
LONGEST_STOP_S = 2.0
# After so many intervals without a look what was seen is no longer true.
STALE_AFTER = 3
# /proc/self/ns/pid of processes that share the host's process numbers (PROC_PID_INIT_INO of the kernel).
HOST_PID_NAMESPACE = "pid:[4026531836]"

# Docker, containerd, CRI-O and Podman all name a container's control group by its 64 hexadecimal digits: `docker/ID`,
# `docker-ID.scope`, `cri-containerd-ID.scope`, `crio-ID.scope`, `libpod-ID.scope`, `kubepods/…/podUID/ID`.
CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
# systemd writes `_` for the dashes of a pod's UID; pods of a node's own manifests have none.
POD = re.compile(r"pod([0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12})(?![0-9a-f])")
# Version 1: `slurm/uid_U/job_J/step_S`; version 2: `slurmstepd.scope/job_J/step_S`.
SLURM_JOB = re.compile(r"/[^/]*slurm[^/]*/(?:uid_\d+/)?job_(\d+)(?:/|$)", re.MULTILINE)

VENDOR_ERRORS = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)


class Owner(NamedTuple):
    """What ``/proc`` shows of a process."""

    process: str = ""
    user: str = ""
    container: str = ""
    slurm_job: str = ""
    pod: str = ""


@dataclass(frozen=True)
class GpuProcess:
    """A compute process on a GPU or MIG instance.

    ``gpu``: short name as everywhere (``0``, ``0.7``). ``memory_bytes``: of the GPU, None if the driver does not report it.
    ``sm_utilization``: ratio of time in which it ran kernels, mean of the driver's samples since the last look; None if the
    driver does not report it (MIG). The texts are empty where not known, where there is none, and ``user`` unless it is wanted.
    """

    gpu: str
    uuid: str
    pid: int
    process: str
    user: str
    container: str
    slurm_job: str
    pod: str
    memory_bytes: int | None
    sm_utilization: float | None


OwnerOf = Callable[[int], Owner | None]


class Part(NamedTuple):
    """What processes are listed of: a GPU, or one compute instance of a MIG instance, which goes by the latter's name."""

    handle: Any
    gpu: str
    uuid: str
    whole: bool


class ProcessWatcher:
    """Looks every ``interval`` seconds at what runs on the GPUs. Needs NVML, regardless of the samples' source.

    ``users``: whether to say whose the processes are.
    ``errors``: driver calls that failed. ``look_seconds``: how long the last look took. ``reason``: why something or all is
    missing, empty when nothing is.
    """

    def __init__(self, interval: float, proc: Path = Path("/proc"), *, users: bool = False) -> None:
        self.errors = 0
        self.look_seconds = 0.0
        self.reason = ""
        self._interval = interval
        self._proc = proc
        self._users = users
        self._open = False
        self._looked: tuple[float, list[GpuProcess]] = (-math.inf, [])
        # By UUID: the newest utilisation sample that was seen (µs of unix time, as the driver stamps them).
        self._newest: dict[str, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="processes", daemon=True)

    def start(self) -> None:
        """Start looking."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking; a look that hangs in the driver is left to the end of the process."""
        self._stopping.set()
        self._thread.join(timeout=LONGEST_STOP_S)

    def processes(self) -> list[GpuProcess]:
        """Return what the last look saw, nothing if that is too long ago."""
        moment, seen = self._looked
        return seen if time.monotonic() - moment <= STALE_AFTER * self._interval else []

    def look(self) -> bool:
        """Look once; return whether the driver answered, about some GPU at least."""
        began = time.monotonic()
        processes: list[GpuProcess] = []
        owned = self._host_pids()
        problem = "" if owned else "their owners are unknown: the agent runs in its own PID namespace"
        # A process on eight GPUs is looked up once.
        owner_of: OwnerOf = cache(lambda pid: read_owner(pid, self._proc, users=self._users) if owned else Owner())
        answered = False
        count = 0
        try:
            if not self._open:
                pynvml.nvmlInit()
                self._open = True
            count = pynvml.nvmlDeviceGetCount()
            answered = count == 0
        except VENDOR_ERRORS as error:
            self.errors += 1
            problem = f"the NVIDIA driver does not answer: {error}"
        for index in range(count):
            try:
                processes += self._on_gpu(index, owner_of)
                answered = True
            except VENDOR_ERRORS as error:
                self.errors += 1
                problem = f"GPU {index} does not answer: {error}"
        self._looked = (time.monotonic(), processes)
        self.look_seconds = time.monotonic() - began
        if problem and problem != self.reason:
            log.warning("processes on the GPUs: %s", problem)
        self.reason = problem
        return answered

    def _run(self) -> None:
        pause, retry = 0.0, FIRST_RETRY_S
        while not self._stopping.wait(pause):
            if self.look():
                pause, retry = self._interval, FIRST_RETRY_S
            else:
                self._let_go()
                pause, retry = max(retry, self._interval), min(2 * retry, LONGEST_RETRY_S)
        self._let_go()

    def _let_go(self) -> None:
        if self._open:
            self._open = False
            with suppress(*VENDOR_ERRORS):
                pynvml.nvmlShutdown()

    def _on_gpu(self, index: int, owner_of: OwnerOf) -> Iterator[GpuProcess]:
        """Return the processes of one GPU, those that are gone by now left out."""
        # Bytes by process and compute instance: a process may be on several of one GPU instance.
        memory: defaultdict[tuple[str, str, int], dict[int, int | None]] = defaultdict(dict)
        shares: dict[str, dict[int, float] | None] = {}
        for part in _parts(index):
            for process in pynvml.nvmlDeviceGetComputeRunningProcesses(part.handle):
                memory[part.gpu, part.uuid, process.pid][process.computeInstanceId] = process.usedGpuMemory
            # The driver does not report utilisation by process on a GPU with instances.
            shares[part.uuid] = self._shares(part) if part.whole else None
        for (gpu, uuid, pid), used in memory.items():
            owner = owner_of(pid)
            if owner is None:
                continue
            known = [number for number in used.values() if number is not None]
            of_gpu = shares[uuid]
            share = None if of_gpu is None else of_gpu.get(pid, 0.0)
            yield GpuProcess(gpu, uuid, pid, *owner, memory_bytes=sum(known) if known else None, sm_utilization=share)

    def _shares(self, part: Part) -> dict[int, float] | None:
        """Return the share of time in which each process ran kernels since the last look, None if it is not reported.

        The driver has samples of busy processes only: who is missing was idle.
        """
        newest = self._newest.get(part.uuid, int((time.time() - self._interval) / MICRO))
        try:
            samples = pynvml.nvmlDeviceGetProcessUtilization(part.handle, newest)
        except pynvml.NVMLError as error:
            # pynvml raises what the driver answers when there is no sample, success included.
            if error.value in (pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND):
                return {}
            if error.value != pynvml.NVML_ERROR_NOT_SUPPORTED:
                self.errors += 1
            return None
        by_pid = defaultdict(list)
        for sample in samples:
            # Entries that the driver did not fill in have an old time stamp or a value that is no percentage.
            if sample.timeStamp > newest and sample.smUtil <= 100:
                by_pid[sample.pid].append(sample.smUtil * PERCENT)
        self._newest[part.uuid] = max([newest, *(sample.timeStamp for sample in samples)])
        return {pid: fmean(values) for pid, values in by_pid.items()}

    def _host_pids(self) -> bool:
        """Whether the numbers by which the driver knows processes mean the same here: elsewhere they would name others."""
        try:
            return str((self._proc / "self/ns/pid").readlink()) == HOST_PID_NAMESPACE
        except OSError:
            return False


def _parts(index: int) -> list[Part]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    try:
        partitioned = pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    except VENDOR_ERRORS:  # before Ampere, or on a driver that knows no instances
        partitioned = False
    if not partitioned:
        return [Part(handle, str(index), pynvml.nvmlDeviceGetUUID(handle), whole=True)]
    parts = []
    uuids: dict[int, str] = {}
    for position in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            slice_handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, position)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_NOT_FOUND:
                continue
            raise
        instance = pynvml.nvmlDeviceGetGpuInstanceId(slice_handle)
        uuid = uuids.setdefault(instance, pynvml.nvmlDeviceGetUUID(slice_handle))
        parts.append(Part(slice_handle, f"{index}.{instance}", uuid, whole=False))
    return parts


def read_owner(pid: int, proc: Path, *, users: bool) -> Owner | None:
    """Return what ``/proc`` shows of a process: nothing where it is hidden from us, None when the process is gone.

    ``users``: whether to name its user.
    """
    try:
        status = (proc / str(pid) / "status").read_text(errors="replace")
        groups = (proc / str(pid) / "cgroup").read_text(errors="replace")
    except OSError:
        return None if _gone(pid) else Owner()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    uid = fields.get("Uid", "").partition("\t")[0]
    containers, pods, jobs = (pattern.findall(groups) for pattern in (CONTAINER, POD, SLURM_JOB))
    return Owner(
        process=fields.get("Name", ""),
        user=_user(int(uid)) if users and uid.isdecimal() else "",
        # A container within a container: the innermost is the one that runs the process.
        container=containers[-1] if containers else "",
        slurm_job=jobs[-1] if jobs else "",
        pod=pods[-1].replace("_", "-") if pods else "",
    )


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # sends nothing
    except PermissionError:
        return False
    except (ProcessLookupError, OverflowError):
        return True
    return False


@lru_cache(maxsize=1024)
def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


class ProcessCollector(Collector):
    """Families of what a watcher saw last. What is not known has no line."""

    LABELS = ("gpu", "uuid", "pid", "process", "user", "container", "slurm_job", "pod")

    def __init__(self, watcher: ProcessWatcher) -> None:
        self._watcher = watcher

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """Yield the families."""
        memory = GaugeMetricFamily(
            "epochcast_gpu_process_memory_bytes", "GPU memory that a compute process uses.", labels=self.LABELS
        )
        utilization = GaugeMetricFamily(
            "epochcast_gpu_process_sm_utilization_ratio",
            "Share of time in which a compute process ran kernels on the GPU, since the last check.",
            labels=self.LABELS,
        )
        for seen in self._watcher.processes():
            labels = [str(getattr(seen, name)) for name in self.LABELS]
            if seen.memory_bytes is not None:
                memory.add_metric(labels, seen.memory_bytes)
            if seen.sm_utilization is not None:
                utilization.add_metric(labels, seen.sm_utilization)
        yield memory
        yield utilization
        yield CounterMetricFamily(
            "epochcast_agent_process_errors", "Calls for processes that the driver refused.", self._watcher.errors
        )
        yield GaugeMetricFamily(
            "epochcast_agent_process_look_seconds",
            "Duration of the last check of the processes on all GPUs.",
            self._watcher.look_seconds,
        )
