"""A Prometheus process whose database was filled before it started: it answers about hours without waiting for them."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO


class QueryError(Exception):
    """Prometheus refused a query; its words."""


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str, moment: float) -> list[dict[str, Any]]:
        """Return the series of a query of one moment [unix s].

        Raises:
            QueryError: the query is refused.
        """
        return self._ask("query", query=expression, time=moment)

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        """Return the series of a query between two moments [unix s], every ``step`` seconds.

        Raises:
            QueryError: the query is refused.
        """
        return self._ask("query_range", query=expression, start=start, end=end, step=step)

    def _ask(self, what: str, **parameters: str | float) -> list[dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}", timeout=30) as answer:
                return list(json.load(answer)["data"]["result"])
        except urllib.error.HTTPError as error:
            raise QueryError(f"{parameters['query']}: {error.read().decode()}") from error


@contextmanager
def filled_prometheus(write: Callable[[TextIO], None], folder: Path) -> Iterator[Prometheus]:
    """Run a Prometheus in ``folder`` that holds what ``write`` wrote as OpenMetrics text.

    Raises:
        RuntimeError: it does not start; with the end of its log.
    """
    with (folder / "history.txt").open("w") as file:
        write(file)
        file.write("# EOF\n")
    blocks = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "-q", folder / "history.txt", folder / "tsdb"]
    subprocess.run(blocks, check=True, capture_output=True)
    (folder / "prometheus.yml").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        running = Prometheus(f"http://127.0.0.1:{port}")
        _wait_for(running, process, folder / "log")
        yield running
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_for(running: Prometheus, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{running.url}/-/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"Prometheus does not start: {log.read_text()[-2000:]}")
