"""A Dask scheduler and workers, real processes on the loopback."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from ...processes import free_port


class Cluster:
    """A scheduler and one worker to begin with; each worker has one thread."""

    def __init__(self, folder: Path, nanny: str = "--no-nanny", *, allowed_failures: int = 3) -> None:
        port = free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        dask = [sys.executable, "-m", "dask"]
        here = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])  # workers import `deeds`
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
        losses = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(allowed_failures)}
        quiet["env"] = {**os.environ, "PYTHONPATH": here, **losses}
        self.scheduler = subprocess.Popen(
            [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"], **quiet
        )
        self.workers: list[subprocess.Popen[bytes]] = []
        self._worker = [*dask, "worker", self.address, "--nthreads", "1", "--no-dashboard", "--death-timeout", "60"]
        self._quiet = quiet
        self.add_worker(nanny)

    def add_worker(self, nanny: str = "--no-nanny") -> None:
        """Start another worker."""
        self.workers.append(subprocess.Popen([*self._worker, nanny], **self._quiet))

    def kill_worker(self, number: int) -> None:
        """Kill it as the kernel does that runs out of memory."""
        self.workers[number].send_signal(signal.SIGKILL)

    def descendants(self) -> Sequence[psutil.Process]:
        """Processes that its workers have started."""
        alive = [psutil.Process(worker.pid) for worker in self.workers if worker.poll() is None]
        return [child for worker in alive for child in worker.children(recursive=True)]

    def stop(self) -> None:
        """End all of it; a worker that has a nanny would outlive one that is killed."""
        below = self.descendants()
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
        for child in below:
            with suppress(psutil.NoSuchProcess):
                child.kill()
