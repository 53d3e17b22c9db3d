"""Programs that a measurement runs next to itself: started, waited for, watched and ended."""

import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import psutil
from prometheus_client.parser import text_string_to_metric_families

_PATIENCE_S = 120.0


@contextmanager
def running(
    command: Sequence[object],
    *,
    ready: Callable[[], bool] = lambda: True,
    environment: Mapping[str, str] | None = None,
    terminal: int | None = None,
) -> Iterator[int]:
    """Run a program until the block ends, which begins once ``ready`` says so; yields its process id.

    ``environment``: on top of ours. ``terminal``: a file descriptor of one, to which it is attached.

    Raises:
        RuntimeError: it ended, or is not ready within two minutes; with the end of what it wrote.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [str(part) for part in command],
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=log if terminal is None else terminal,
            stderr=log if terminal is None else terminal,
        )
        try:
            give_up = time.monotonic() + _PATIENCE_S
            while not ready():
                if process.poll() is not None or time.monotonic() > give_up:
                    log.seek(0)
                    raise RuntimeError(f"{command[0]} is not ready: {log.read().decode(errors='replace')[-2000:]}")
                time.sleep(0.05)
            yield process.pid
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} ended with {process.returncode}")
        finally:
            descendants = tree(process.pid)[1:]
            process.terminate()
            process.wait(timeout=60)
            for orphan in descendants:
                with suppress(psutil.Error):
                    orphan.terminate()


def tree(*parents: int) -> list[psutil.Process]:
    """The processes and their descendants that live, each parent before its own."""
    found = []
    for parent in parents:
        with suppress(psutil.Error):  # it ended while we looked
            found += [psutil.Process(parent), *psutil.Process(parent).children(recursive=True)]
    return found


def cpu_seconds(*parents: int) -> float:
    """Processor time (user and system) of the processes so far, with that of descendants; of ended ones in steps of 10 ms."""
    processes = tree(*parents)
    ended: float = sum(times.children_user + times.children_system for times in (process.cpu_times() for process in processes))
    # What clock_getcpuclockid(3) returns, which Python does not have: a clock in nanoseconds.
    return ended + sum(time.clock_gettime(~process.pid << 3 | 2) for process in processes)


class Memory(NamedTuple):
    """Of one process [bytes]. What two of them share (their libraries) is resident in both, and proportional once in all."""

    command: str
    resident: int
    proportional: int


def memory(*parents: int) -> dict[int, Memory]:
    """Memory of the processes and their descendants, by process id."""
    held = {}
    for process in tree(*parents):
        with suppress(psutil.Error):
            full = process.memory_full_info()
            held[process.pid] = Memory(" ".join(process.cmdline()), full.rss, full.pss)
    return held


@dataclass(frozen=True)
class Server:
    """A program that listens: its process id and its address."""

    pid: int
    url: str

    def text(self, path: str, **parameters: object) -> str:
        """What it answers to GET; RuntimeError where it refuses, in its words."""
        try:
            query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
            with urllib.request.urlopen(f"{self.url}{path}{query}", timeout=60) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path} {parameters}: {error.read().decode()}") from error

    def json(self, path: str, **parameters: object) -> Any:
        """What it answers to GET, as JSON."""
        return json.loads(self.text(path, **parameters))

    def figures(self) -> dict[str, float]:
        """What it says about itself on /metrics: by name, and histograms' buckets by name and bound."""
        families = text_string_to_metric_families(self.text("/metrics"))
        samples = [sample for family in families for sample in family.samples]
        return {f"{sample.name}{sample.labels.get('le', '')}": sample.value for sample in samples}


@contextmanager
def listening(
    module: str, *arguments: str, folder: Path, settings: str = "", environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Run a program of ours until the block ends, which begins once it listens.

    ``settings``: TOML text without the port; it is written into ``folder``.
    """
    port, toml = folder / "port", folder / "settings.toml"
    port.unlink(missing_ok=True)
    toml.write_text(f'port = 0\nport_file = "{port}"\n{settings}')
    command = [sys.executable, "-m", module, *arguments, "--config", toml]
    with running(command, ready=port.exists, environment=environment) as pid:
        yield Server(pid, f"http://127.0.0.1:{port.read_text().strip()}")


def free_port() -> int:
    """A TCP port that nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def connects(port: int) -> bool:
    """Whether somebody listens on this port of the loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Prometheus(Server):
    """A running Prometheus."""

    def query(self, expression: str, moment: float) -> list[dict[str, Any]]:
        """The series of a query of one moment [unix s]."""
        return list(self.json("/api/v1/query", query=expression, time=moment)["data"]["result"])


@contextmanager
def prometheus(
    folder: Path, *options: str, port: int = 0, config: str = "", write: Callable[[TextIO], None] | None = None
) -> Iterator[Prometheus]:
    """Run a Prometheus with its data in ``folder`` until the block ends; ``port`` 0 takes a free one.

    ``config``: its configuration file. ``write`` fills the database before, with OpenMetrics text, so that it answers about
    hours without waiting for them.
    """
    if write is not None:
        with (folder / "past.txt").open("w") as file:
            write(file)
            file.write("# EOF\n")
        blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "-q", f"{folder}/past.txt", f"{folder}/tsdb"]
        subprocess.run(blocks, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text(config)
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
    port = port or free_port()  # only now: writing the past takes long enough for another to take it
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    with running([*command, f"--web.listen-address=127.0.0.1:{port}", *options], ready=ready) as pid:
        yield Prometheus(pid, url)


def machine() -> str:
    """CPU model, cores and load: what an absolute time is worth nothing without."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())
    return f"{model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"
