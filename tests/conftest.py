"""Fixtures shared by all rooms' tests."""

import gc
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from .processes import Process, Program, free_port

ROOT = Path(__file__).resolve().parent.parent

# Read by torch and NumPy when they are imported. The tests' arrays are small, and threads that wait for a core which another
# worker holds take many times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores, as some tests wait for recordings and for each other's processes; at most five."""
    return min(4, len(os.sched_getaffinity(0))) + 1


def pytest_collection_finish() -> None:
    """Look for garbage only among what tests make: all that was imported and collected stays."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


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


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start this Python with any arguments, then those for a free port that is told in a file; ended after the test."""
    with ExitStack() as stack:
        numbers = count()

        def start(*arguments: object, env: dict[str, str] | None = None) -> Process:
            port_file = tmp_path / f"port-{next(numbers)}"
            command = [sys.executable, *map(str, arguments), "--port", "0", "--port-file", str(port_file)]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
            stack.callback(lambda: process.poll() is None and process.communicate(timeout=30))
            stack.callback(lambda: process.poll() is None and process.terminate())
            while not port_file.exists():
                try:
                    process.wait(timeout=0.05)
                except subprocess.TimeoutExpired:
                    continue
                pytest.fail(f"it ended with {process.returncode}: {process.communicate()[1]}")
            return Process(process, int(port_file.read_text()))

        yield start


@pytest.fixture
def start_agent(start_process: Callable[..., Process]) -> Callable[..., Process]:
    """Start agents on free ports, each ready to be asked."""
    return partial(start_process, "-m", "epochcast.agent")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Compile a stub of a driver's library: its name, the C file, and more flags."""

    def compile_library(name: str, source: Path, *flags: str) -> Path:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            pytest.skip(f"no C compiler: the stub {name} cannot be built")
        library = tmp_path_factory.mktemp("stub") / name
        usual = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run([compiler, *usual, "-o", library, source, *flags], check=True)
        return library

    return compile_library


@pytest.fixture(scope="session")
def nvml_library(compiled: Callable[..., Path]) -> Path:
    """A stub ``libnvidia-ml.so.1``, compiled once."""
    return compiled("libnvidia-ml.so.1", ROOT / "tests" / "agent" / "nvml_stub.c", "-pthread", "-lm")


@pytest.fixture
def database(tmp_path: Path, until: Any) -> Iterator[Callable[..., Program]]:
    """Start a database by its program's name; Prometheus scrapes an agent where its port is given."""
    databases: list[Program] = []

    def start(program: str, agent_port: int | None = None) -> Program:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine (Debian: apt install {program})")
        port = free_port()
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
        databases.append(Program([program, *options[program]], f"http://127.0.0.1:{port}", tmp_path / "database.log"))
        databases[-1].start()
        until(lambda: databases[-1].query("vector(1)"))
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
