"""Fixtures shared by all rooms' tests."""

import gc
import http.client
import os
import shutil
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from .arithmetic import add_alike
from .processes import Process, Program, free_port, wait_until

ROOT = Path(__file__).resolve().parent.parent

add_alike()


def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores, as some tests wait for recordings and for each other's processes; at most five."""
    return min(4, len(os.sched_getaffinity(0))) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--skipped-before", action="store_true", help="run only what skipped in the last run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``--skipped-before``, leave the tests that skipped in the last run, and those of files that skipped as a whole."""
    if config.getoption("--skipped-before"):
        assert config.cache is not None
        skipped = set(config.cache.get("epochcast/skipped", []))
        chosen = [item for item in items if skipped & {item.nodeid, item.nodeid.partition("::")[0]}]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Note for ``--skipped-before`` what skipped; say how much of tests/owner and tests/frozen ran."""
    if cache := getattr(config, "cache", None):  # not with -p no:cacheprovider
        cache.set("epochcast/skipped", sorted(report.nodeid for report in terminalreporter.stats.get("skipped", ())))
    owner = {
        outcome: sum(report.nodeid.startswith("tests/owner/") for report in terminalreporter.stats.get(outcome, ()))
        for outcome in ("passed", "failed", "skipped")
    }
    if any(owner.values()):
        ran = owner["passed"] + owner["failed"]
        terminalreporter.write_line(f"owner: {ran} tests ran, {owner['failed']} failed, {owner['skipped']} skipped")
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    compared = [value for report in reports for key, value in report.user_properties if key == "frozen_figures"]
    if compared:
        terminalreporter.write_line(f"{sum(compared)} frozen figures compared, in {len(compared)} parts (tests/frozen)")


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
def until() -> Callable[..., Any]:
    """Wait until a condition holds."""
    return wait_until


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start a Python, ours unless named, with any arguments and those for a free port, read from a file; ends with the test."""
    with ExitStack() as stack:
        numbers = count()

        def start(*arguments: object, env: dict[str, str] | None = None, python: str | Path = sys.executable) -> Process:
            port_file = tmp_path / f"port-{next(numbers)}"
            command = [str(python), *map(str, arguments), "--port", "0", "--port-file", str(port_file)]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})
            stack.callback(lambda: process.poll() is None and process.communicate(timeout=60))
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


def _hello(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return iter([b"hello ", environ["PATH_INFO"].encode()])  # no list: no Content-Length, the end must be told otherwise


@pytest.fixture(scope="session")
def hello() -> Callable[..., Iterable[bytes]]:
    """An application that greets the requested path."""
    return _hello


@pytest.fixture
def running() -> Iterator[Callable[[Any], Any]]:
    """Run servers of WSGI applications until the test ends."""
    with ExitStack() as stack:

        def start(listening: Any) -> Any:
            thread = threading.Thread(target=listening.serve_forever)
            thread.start()
            stack.callback(thread.join, timeout=60)
            stack.callback(listening.server_close)
            stack.callback(listening.shutdown)
            return listening

        yield start


@pytest.fixture(scope="session")
def fetch() -> Callable[..., tuple[int, dict[str, str], bytes]]:
    """Make one request; what comes back is (status, headers, body)."""

    def request(
        listening: Any, path: str = "/", context: ssl.SSLContext | None = None, method: str = "GET", **options: Any
    ) -> tuple[int, dict[str, str], bytes]:
        host, port = listening.server_address[:2]
        connection: http.client.HTTPConnection
        if context is None:
            connection = http.client.HTTPConnection(str(host), int(port), timeout=60)
        else:
            connection = http.client.HTTPSConnection(str(host), int(port), timeout=60, context=context)
        try:
            connection.request(method, path, **options)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    return request


@pytest.fixture
def make_certificate(tmp_path: Path) -> Callable[[str], tuple[Path, Path]]:
    """Make a self-signed certificate of this machine; what comes back is its file and its key's."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl: no certificates to test with")

    def make(name: str) -> tuple[Path, Path]:
        paths = tmp_path / f"{name}.pem", tmp_path / f"{name}.key"
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ]
        command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        subprocess.run([*command, "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
        return paths

    return make


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
    """Start a database by its program's name; Prometheus scrapes an agent where its port is given, with these rules.

    ``past``: OpenMetrics samples, by their metrics, that Prometheus shall hold from the start.
    """
    databases: list[Program] = []

    def start(
        program: str, agent_port: int | None = None, interval: str = "1s", rules: Path | None = None, past: Sequence[str] = ()
    ) -> Program:
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine (Debian: apt install {program})")
        if past:
            if shutil.which("promtool") is None:
                pytest.skip("no promtool on this machine (Debian: apt install prometheus)")
            (tmp_path / "past.txt").write_text("\n".join([*past, "# EOF"]) + "\n")
            blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", tmp_path / "past.txt", tmp_path / "tsdb"]
            subprocess.run(blocks, check=True, capture_output=True)
        port = free_port()
        target = f"{{job_name: epochcast, static_configs: [{{targets: ['127.0.0.1:{agent_port}']}}]}}"
        scrape = "" if agent_port is None else f"global: {{scrape_interval: {interval}}}\nscrape_configs: [{target}]\n"
        (tmp_path / "prometheus.yml").write_text(scrape + ("" if rules is None else f"rule_files: ['{rules}']\n"))
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
