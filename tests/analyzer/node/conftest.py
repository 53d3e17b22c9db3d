"""Fixtures of the node analyzer's tests: real processes, an agent that replays and the node analyzer beside it."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest


class Process:
    """A process that told its port."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"

    def text(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read().decode()

    def json(self, path: str) -> Any:
        return json.loads(self.text(path))

    def refused(self, path: str, **headers: str) -> tuple[int, dict[str, str]]:
        """Status and JSON of an answer that is an error."""
        with pytest.raises(HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers), timeout=10)
        with caught.value as error:
            return error.code, json.loads(error.read())

    def wait_for(self, ready: Callable[[], bool], patience_s: float = 90.0) -> None:
        give_up = time.monotonic() + patience_s
        while not ready():
            assert self.process.poll() is None, "it ended"
            assert time.monotonic() < give_up, "it did not come to pass"
            time.sleep(0.1)

    def stop(self) -> tuple[int, str]:
        """Ask it to stop; exit status and what it wrote to stderr."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start ``python -m MODULE ARGUMENTS``, which writes its port; ended after the test."""
    with ExitStack() as stack:
        numbers = iter(range(100))

        def begin(module: str, *arguments: object) -> Process:
            port_file = tmp_path / f"port-{next(numbers)}"
            command = [sys.executable, "-m", module, *map(str, arguments), "--port", "0", "--port-file", str(port_file)]
            process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
            stack.callback(lambda: process.poll() is None and process.communicate(timeout=30))
            stack.callback(lambda: process.poll() is None and process.terminate())
            while not port_file.exists():
                try:
                    process.wait(timeout=0.05)
                except subprocess.TimeoutExpired:
                    continue
                pytest.fail(f"{module} ended with {process.returncode}: {process.communicate()[1]}")
            return Process(process, int(port_file.read_text()))

        yield begin
