"""An agent of our own as a child process, for a node where no daemon listens."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from epochcast.analyzer.errors import AgentError, InputError
from epochcast.analyzer.traces.recording.agent_client import AgentClient

_START_TIMEOUT_S = 20.0  # NVML initialisation without a persistence daemon takes seconds
_STOP_TIMEOUT_S = 5.0


@contextmanager
def agent_process(arguments: Sequence[str]) -> Iterator[AgentClient]:
    """Run ``epochcast-agent ARGUMENTS`` on a free local port and yield its client once samples flow.

    Raises InputError with the agent's own sentence if it refuses its arguments (no GPU for ``nvml``, say), AgentError if it
    dies or does not start. The child always ends with the block, and with this process, even by SIGKILL.
    """
    with tempfile.TemporaryDirectory(prefix="epochcast-") as folder:
        port_file, log = Path(folder) / "port", Path(folder) / "log"
        command = [sys.executable, "-m", "epochcast.agent", *arguments, "--while-stdin", "--port", "0"]
        command += ["--port-file", str(port_file)]
        with log.open("wb") as stderr:
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=stderr, stderr=stderr, start_new_session=True)
        try:
            yield AgentClient(f"http://127.0.0.1:{_await_port(child, port_file, log)}")
        finally:
            child.terminate()
            try:
                child.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            assert child.stdin is not None
            child.stdin.close()


def _await_port(child: subprocess.Popen[bytes], port_file: Path, log: Path) -> int:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        if port_file.exists():
            return int(port_file.read_text())
        if child.poll() is not None:
            reason = _last_line(log).removeprefix("epochcast-agent: ").removeprefix("error: ")
            if child.returncode == 2:
                raise InputError(reason)
            raise AgentError(f"the agent ended with status {child.returncode}: {reason}")
        time.sleep(0.02)
    raise AgentError(f"the agent gave no sample within {_START_TIMEOUT_S:.0f} s; its log ends: {_last_line(log, 'no source')}")


def _last_line(log: Path, text: str = "") -> str:
    """The last line of a log with this text, else the last."""
    lines = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
    return next((line for line in reversed(lines) if text in line), lines[-1])
