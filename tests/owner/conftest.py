"""What the owner wants is shown by the product's outer surface: commands, HTTP, files. None of it may skip (see below)."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ..processes import Program, free_port

ROOT = Path(__file__).parents[2]
# Where the public measurements, root and apt are, a test here can lack nothing but PyTorch and what is built on it. `.ci/run`
# runs what skipped without it in an environment that has it.
COMPLETE = (
    (Path(os.environ.get("EPOCHCAST_SHARED", ROOT.parent / "shared")) / "data").is_dir()
    and os.geteuid() == 0
    and shutil.which("apt-get") is not None
)
TORCH = find_spec("torch") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that skips has failed, unless it lacks PyTorch."""
    report = yield
    if report.skipped and COMPLETE and (TORCH or "torch" not in str(report.longrepr)):
        report.outcome = "failed"
        report.longrepr = f"it shows what the owner wants, and skipped: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def epochcast() -> Callable[..., str]:
    """Run the installed command; what it prints."""

    def run(*arguments: object) -> str:
        command = [str(Path(sys.executable).with_name("epochcast")), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr[-3000:]}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def answer(epochcast: Callable[..., str]) -> Callable[..., Any]:
    """Run the installed command with ``--json``; the document that it prints."""
    return lambda *arguments: json.loads(epochcast(*arguments, "--json"))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Start ``epochcast serve`` with settings [TOML] or options; it answers when it comes back."""
    with ExitStack() as stack:

        def start(settings: str = "", *options: object) -> Program:
            port = free_port()
            config = tmp_path / "analyzer.toml"
            config.write_text(f'port = {port}\nstate = "{tmp_path / "state.db"}"\n{settings}[limits]\nseconds = 120\n')
            chosen = options or ("--config", config)
            command = [
                Path(sys.executable).with_name("epochcast"),
                "serve",
                *(port if one == "PORT" else one for one in chosen),
            ]
            program = Program(command, f"http://127.0.0.1:{port}", tmp_path / "service.log", {"TMPDIR": str(tmp_path)})
            stack.callback(program.stop)
            program.start()
            return program

        yield start


@pytest.fixture(scope="session")
def post() -> Callable[..., Any]:
    """Send to a service; the document that it answers."""

    def send(url: str, body: bytes, kind: str = "application/json") -> Any:
        with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": kind}), timeout=120) as answered:
            return json.load(answered)

    return send


@pytest.fixture(scope="session")
def driver(compiled: Callable[..., Path], nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds stubs of NVIDIA's libraries: an H200 and a T4, busy for half of every 4 s."""
    cuda = compiled("libcuda.so.1", ROOT / "tests" / "agent" / "cuda_stub.c", "-D_GNU_SOURCE")
    scenario = tmp_path_factory.mktemp("driver") / "scenario"
    scenario.write_text("gpus 2\ngpu 1 t4\nepoch * 4 0.5\n")
    return {"LD_LIBRARY_PATH": f"{nvml_library.parent}:{cuda.parent}", "NVML_STUB_SCENARIO": str(scenario)}
