"""What fails under a running service is named within half a minute, in health, metrics, page and alert, and heals.

Real processes: an agent that replays, the service, Prometheus with the rules that are shipped, less the time they wait.
"""

import html
import json
import logging
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import psutil
import pytest

from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.detector.simulator import simulate

from ...processes import Program, free_port

pytestmark = pytest.mark.soak

log = logging.getLogger(__name__)

WITHIN_S = 30.0
ROOT = Path(__file__).parents[3]


class OtherClock(BaseHTTPRequestHandler):
    """An agent without GPUs on a machine whose clock differs."""

    offset_s = 0.0

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(time.time() + self.offset_s, usegmt=True)

    def do_GET(self) -> None:
        body = b'{"schema": "epochcast.gpus/v1", "gpus": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


class Installation:
    """An agent, the service and Prometheus; the state is on a disk of 8 MB."""

    def __init__(self, folder: Path, disk: Path) -> None:
        self.disk, self.state = disk, disk / "state.db"
        ports = {name: free_port() for name in ("agent", "service", "prometheus")}
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        made = simulate(seed=3, epochs=80, epoch_s=12.0)
        columns = {name: made.metrics[name] for name in ("dram_active", "sm_active", "power")}
        trace = Trace(pd.DataFrame({"time": made.time, **columns}), gpu="Tesla T4", uuid="GPU-t4", source="replay")
        (folder / "traces").mkdir()
        write_trace(trace, folder / "traces/run.parquet")
        (folder / "agent.toml").write_text(f'port = {ports["agent"]}\nreplay = "{folder / "traces"}"\nspeed = 4\n')
        self.other = ThreadingHTTPServer(("127.0.0.1", 0), OtherClock)
        threading.Thread(target=self.other.serve_forever, daemon=True).start()
        sources = (urls["agent"], f"http://127.0.0.1:{self.other.server_port}")
        tables = "".join(f'[[agents]]\nurl = "{url}"\ninterval = 1\n' for url in sources)
        (folder / "analyzer.toml").write_text(f'port = {ports["service"]}\nstate = "{self.state}"\n{tables}')
        rules = (ROOT / "dashboards/training_alerts.yml").read_text()
        (folder / "alerts.yml").write_text(re.sub(r"\n +for: .*", "", rules))
        scrape = {"job_name": "epochcast-analyzer", "static_configs": [{"targets": [f"127.0.0.1:{ports['service']}"]}]}
        times = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        settings = {"global": times, "rule_files": ["alerts.yml"], "scrape_configs": [scrape]}
        (folder / "prometheus.yml").write_text(json.dumps(settings))
        commands: dict[str, list[object]] = {
            "agent": [sys.executable, "-m", "epochcast.agent", "--config", folder / "agent.toml"],
            "service": [sys.executable, "-m", "epochcast.analyzer", "serve", "--config", folder / "analyzer.toml"],
            "prometheus": [
                *("prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"),
                f"--web.listen-address=127.0.0.1:{ports['prometheus']}",
            ],
        }
        self.programs = {name: Program(command, urls[name], folder / f"{name}.log") for name, command in commands.items()}
        self.service = self.programs["service"]

    @property
    def watcher(self) -> psutil.Process:
        (child,) = (one for one in psutil.Process(self.service.pid).children() if "spawn_main" in " ".join(one.cmdline()))
        return child

    @property
    def notes(self) -> str:
        return " ".join(self.service.json("/api/v1/health")["notes"])

    def alerts(self) -> set[str]:
        firing = self.programs["prometheus"].query('ALERTS{alertstate="firing"}')
        return {row["metric"]["alertname"] for row in firing}

    def seconds_until(self, what: str, condition: Callable[[], object], within_s: float = WITHIN_S) -> float:
        began = time.monotonic()
        while time.monotonic() - began < within_s:
            with suppress(OSError, ValueError):
                if condition():
                    return time.monotonic() - began
            time.sleep(0.2)
        pytest.fail(f"{what}: not within {within_s:g} s; {self.notes}; {self.alerts()}; {self.service.log.read_text()[-2000:]}")

    def is_well(self) -> bool:
        return self.service.json("/api/v1/health")["status"] == "ok" and self.service.json("/api/v1/jobs")["jobs"] != []


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus on this machine (Debian: apt install prometheus)")
    folder = tmp_path_factory.mktemp("failures")
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here ({mounted.stderr.decode().strip()})")
    made = Installation(folder, disk)
    try:
        for program in made.programs.values():
            program.start()
        made.seconds_until("a first job", made.is_well, 90)
        yield made
    finally:
        for program in reversed(made.programs.values()):
            program.stop(signal.SIGKILL)
        subprocess.run(["umount", "-l", disk], check=True)


@contextmanager
def full_disk(installation: Installation) -> Iterator[None]:
    filler = installation.disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def disk_error(installation: Installation) -> Iterator[None]:
    """Every write fails, as on a file system that the kernel has made read-only."""
    watcher = installation.watcher.pid
    before = resource.prlimit(watcher, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(watcher, resource.RLIMIT_FSIZE, before)


@contextmanager
def locked(installation: Installation) -> Iterator[None]:
    with closing(sqlite3.connect(installation.state, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def corrupt(installation: Installation) -> Iterator[None]:
    """Pages are overwritten, first those that the log holds are moved into the file."""
    with closing(sqlite3.connect(installation.state)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with installation.state.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (installation.state.stat().st_size - 4096))
    try:
        yield
    finally:
        for aside in installation.disk.glob("*.broken-*"):
            aside.unlink()


@contextmanager
def corrupt_at_start(installation: Installation) -> Iterator[None]:
    installation.service.stop()
    installation.state.write_bytes(b"this is no database" * 1000)
    installation.service.start()
    try:
        yield
    finally:
        for aside in installation.disk.glob("*.broken-*"):
            aside.unlink()


@contextmanager
def watcher_stopped(installation: Installation) -> Iterator[None]:
    installation.watcher.suspend()
    yield  # the service restarts it


@contextmanager
def source_gone(installation: Installation) -> Iterator[None]:
    installation.programs["agent"].stop(signal.SIGKILL)
    try:
        yield
    finally:
        installation.programs["agent"].start()


@contextmanager
def clock_off(installation: Installation) -> Iterator[None]:
    OtherClock.offset_s = 3600.0
    try:
        yield
    finally:
        OtherClock.offset_s = 0.0


@pytest.mark.parametrize(
    ("failure", "words", "metric", "alert"),
    [
        (full_disk, "disk is full", "epochcast_analyzer_store_errors_total [1-9]", "EpochcastStateNotWritten"),
        (disk_error, "disk I/O error", "epochcast_analyzer_store_errors_total [1-9]", "EpochcastStateNotWritten"),
        (locked, "locked", "epochcast_analyzer_store_errors_total [1-9]", "EpochcastStateNotWritten"),
        (corrupt, "the state was damaged", "epochcast_analyzer_damaged_state_files 1", "EpochcastStateDamaged"),
        (corrupt_at_start, "the state was damaged", "epochcast_analyzer_damaged_state_files 1", "EpochcastStateDamaged"),
        (watcher_stopped, "the watcher has not reported for", "epochcast_analyzer_watcher_up 0", "EpochcastWatcherDown"),
        (source_gone, "does not answer", "epochcast_analyzer_source_up.* 0", "EpochcastTelemetrySourceDown"),
        (clock_off, "ahead of this machine's", "epochcast_analyzer_source_clock_offset_seconds.* 3[56]", "EpochcastClockOff"),
    ],
)
def test_a_failure_is_named_and_heals(
    installation: Installation, failure: Callable[[Installation], object], words: str, metric: str, alert: str
) -> None:
    service = installation.service
    installation.seconds_until("health before", installation.is_well, 90)
    jobs, before = {job["id"] for job in service.json("/api/v1/jobs")["jobs"]}, service.get("/metrics").splitlines()

    def measured() -> bool:
        lines = [line for line in service.get("/metrics").splitlines() if line not in before]
        return any(re.match(metric, line) for line in lines)

    with failure(installation):  # type: ignore[attr-defined]
        seconds = {
            "health": installation.seconds_until("health", lambda: words in installation.notes),
            "metrics": installation.seconds_until("metrics", measured),
            "page": installation.seconds_until("page", lambda: words in html.unescape(service.get("/"))),
            "alert": installation.seconds_until("alert", lambda: alert in installation.alerts()),
        }
    seconds["healed"] = installation.seconds_until("health afterwards", installation.is_well, 90)
    log.info("%s: %s", failure.__name__, ", ".join(f"{name} {value:.1f} s" for name, value in seconds.items()))
    if failure is not corrupt_at_start:
        assert {job["id"] for job in service.json("/api/v1/jobs")["jobs"]} >= jobs
