"""Programs that tests run next to themselves, and ask over HTTP."""

import json
import os
import secrets
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError

import pytest

Value = TypeVar("Value")


def wait_until(condition: Callable[[], Value], seconds: float = 120.0, said: Callable[[], str] = str) -> Value:
    """What a condition gives as soon as it holds; fail when it does not in time. What does not answer yet does not hold."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(OSError, ValueError):
            if value := condition():
                return value
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds:g} s; {said()}")
        time.sleep(0.05)


def free_port() -> int:
    """A TCP port that nobody listens on just now, and that the system gives to nobody by itself (those from 32768)."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _get(url: str, path: str, parameters: dict[str, str]) -> str:
    query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
    with urllib.request.urlopen(f"{url}{path}{query}", timeout=60) as answer:
        return answer.read().decode()


class Process:
    """A process that chose its port, told it, and so is ready to be asked; see the fixture ``start_process``."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def text(self, path: str) -> str:
        return _get(self.url, path, {})

    def json(self, path: str) -> Any:
        return json.loads(self.text(path))

    def refused(self, path: str, **headers: str) -> tuple[int, dict[str, str]]:
        """Status and JSON of an answer that is an error."""
        with pytest.raises(HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers), timeout=60)
        with caught.value as error:
            return error.code, json.loads(error.read())

    def stop(self) -> tuple[int, str]:
        """Ask it to stop; return its exit status and what it wrote to stderr."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


class Program:
    """A process that keeps its command, and so its port and its files, from start to start."""

    def __init__(self, command: list[object], url: str, log: Path, env: dict[str, str] | None = None) -> None:
        self.url = url
        self.log = log
        self.command = [str(part) for part in command]
        self._env = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self.command, stdout=log, stderr=log, env=self._env)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it; return its exit status."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        status = self._process.wait(timeout=60)
        self._process = None
        return status

    def get(self, path: str, **parameters: str) -> str:
        return _get(self.url, path, parameters)

    def json(self, path: str, **parameters: str) -> Any:
        return json.loads(self.get(path, **parameters))

    def query(self, expression: str, **parameters: str) -> list[dict[str, Any]]:
        """What a database answers to a PromQL expression."""
        answer = self.json("/api/v1/query", query=expression, **parameters)
        assert answer["status"] == "success"
        return list(answer["data"]["result"])

    def answers(self, path: str) -> bool:
        if self._process is not None and self._process.poll() is not None:
            pytest.fail(f"{' '.join(self.command)} ended with {self._process.returncode}: {self.log.read_text()[-2000:]}")
        with suppress(OSError, ValueError):
            self.get(path)
            return True
        return False
