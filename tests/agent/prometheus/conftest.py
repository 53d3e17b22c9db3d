"""A real Prometheus or VictoriaMetrics in a process of its own."""

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


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
