"""Fixtures shared by all rooms' tests."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Read by torch and NumPy when they are imported. The tests' arrays are small, and threads that wait for a core which another
# worker holds take many times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests keep from run to run is kept in a folder of this run, not in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public measurements; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("EPOCHCAST_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}: set EPOCHCAST_SHARED to where it lies")
    return folder


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    """Wait until a condition holds; fail when it does not in time. What does not listen yet does not hold."""

    def wait(condition: Callable[[], object], seconds: float = 40.0) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with suppress(OSError):
                if condition():
                    return
            time.sleep(0.02)
        pytest.fail(f"not within {seconds:g} s")

    return wait


class AgentProcess:
    """A running ``epochcast-agent`` that has its first sample."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def text(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read().decode()

    def json(self, path: str) -> Any:
        return json.loads(self.text(path))

    def stop(self) -> tuple[int, str]:
        """Ask the agent to stop; return its exit status and what it wrote to stderr."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=20)
        return self.process.returncode, errors


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[Callable[..., AgentProcess]]:
    """Start agents on free ports, each ready to be asked; they are stopped after the test."""
    with ExitStack() as stack:

        def start(*arguments: object, env: dict[str, str] | None = None) -> AgentProcess:
            port_file = tmp_path / "port"
            port_file.unlink(missing_ok=True)
            command = [sys.executable, "-m", "epochcast.agent", "--port", "0", "--port-file", port_file, *arguments]
            process = subprocess.Popen(
                [str(part) for part in command], stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
            )
            stack.callback(lambda: process.poll() is None and process.communicate(timeout=20))
            stack.callback(lambda: process.poll() is None and process.terminate())
            while not port_file.exists():
                try:
                    process.wait(timeout=0.05)
                except subprocess.TimeoutExpired:
                    continue
                pytest.fail(f"the agent ended with {process.returncode}: {process.communicate()[1]}")
            return AgentProcess(process, int(port_file.read_text()))

        yield start


class Database:
    """A time-series database in a process of its own that keeps its data and its port from start to start."""

    def __init__(self, command: list[str], log: Path, port: int, until: Callable[..., None]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._command = command
        self._log = log
        self._until = until
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        self._until(lambda: bool(self.get("/api/v1/query", query="vector(1)")))

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=20)
            self._process = None

    def get(self, path: str, **parameters: str) -> str:
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
            return answer.read().decode()

    def query(self, expression: str, **parameters: str) -> list[dict[str, Any]]:
        result = json.loads(self.get("/api/v1/query", query=expression, **parameters))
        assert result["status"] == "success"
        return list(result["data"]["result"])


@pytest.fixture
def database(tmp_path: Path, until: Any) -> Iterator[Callable[..., Database]]:
    """Start a database by its program's name; Prometheus scrapes an agent where its port is given."""
    databases: list[Database] = []

    def start(program: str, agent_port: int | None = None) -> Database:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine (Debian: apt install {program})")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        target = f"{{job_name: epochcast, static_configs: [{{targets: ['127.0.0.1:{agent_port}']}}]}}"
        scrape = "" if agent_port is None else f"global: {{scrape_interval: 1s}}\nscrape_configs: [{target}]\n"
        (tmp_path / "prometheus.yml").write_text(scrape)
        options = {
            "prometheus": [
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--web.enable-remote-write-receiver",
            ],
            # Without a latency offset of zero the newest 30 seconds are hidden from queries.
            "victoria-metrics": [
                f"-storageDataPath={tmp_path / 'victoria'}",
                f"-httpListenAddr=127.0.0.1:{port}",
                "-search.latencyOffset=0s",
                "-memory.allowedBytes=64MB",
            ],
        }
        databases.append(Database([program, *options[program]], tmp_path / "database.log", port, until))
        databases[-1].start()
        return databases[-1]

    yield start
    for each in databases:
        each.stop()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A headless Chromium; no longer than needed, as playwright runs an event loop in the thread of the tests."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium here: install the Debian package chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (extra dev)")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
