"""The committed dashboards, and a real Prometheus that holds the history of the modelled fleet."""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

# A range begins after its oldest moment in Prometheus 3, and with it in Prometheus 2: a second more makes both take the sample
# of a minute ago.
RATE_INTERVAL = "61s"


class Query(NamedTuple):
    """One query of a panel, with the panel's title and the labels that its legend names."""

    board: str
    panel: str
    ref_id: str
    expression: str
    legend: frozenset[str]


@pytest.fixture(scope="session")
def boards(root: Path) -> dict[str, Any]:
    """The dashboards by their uid."""
    found = [json.loads(path.read_text()) for path in sorted((root / "dashboards" / "grafana").glob("*.json"))]
    assert len(found) == 4
    return {board["uid"]: board for board in found}


@pytest.fixture(scope="session")
def queries(boards: dict[str, Any]) -> list[Query]:
    """Every query of every panel."""
    return [
        Query(
            uid,
            panel["title"],
            target["refId"],
            target["expr"],
            frozenset(re.findall(r"{{(\w+)}}", target.get("legendFormat", ""))),
        )
        for uid, board in boards.items()
        for panel in board["panels"]
        for target in panel.get("targets", [])
    ]


@pytest.fixture(scope="session")
def model(root: Path) -> Iterator[ModuleType]:
    """benchmarks/service/modelled_fleet.py, which is a script's part and no package."""
    before = [*sys.path]
    sys.path.insert(0, str(root / "benchmarks" / "service"))
    yield import_module("modelled_fleet")
    sys.path[:] = before
    sys.modules.pop("modelled_fleet", None)


class Prometheus:
    """A running Prometheus, asked as of ``now``."""

    def __init__(self, url: str, now: float) -> None:
        self.url, self.now = url, now

    def labelled(self, expression: str, **variables: str) -> list[tuple[dict[str, str], float]]:
        """Return what Grafana would get for a query: labels and value of each series."""
        for name, value in {"__rate_interval": RATE_INTERVAL, **variables}.items():
            expression = expression.replace(f"${name}", value)
        assert "$" not in expression, f"a variable without a value in {expression}"
        parameters = urllib.parse.urlencode({"query": expression, "time": self.now})
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query?{parameters}", timeout=20) as answer:
                result = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            pytest.fail(f"{expression}: {error.read().decode()}")
        return [(series["metric"], float(series["value"][1])) for series in result]


@pytest.fixture(scope="session")
def prometheus(model: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus with an hour of the fleet's jobs, and six minutes of its GPUs' metrics, up to a whole minute."""
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine (Debian: apt install prometheus)")
    folder = tmp_path_factory.mktemp("prometheus")
    now = time.time() // 60 * 60.0
    jobs = model.fleet(now)
    with (folder / "history.txt").open("w") as file:
        for series, minutes in ((model.agent_series(jobs, now), 6), (model.analyzer_series(jobs, now), 61)):
            steps = round(minutes * 60 / model.SCRAPE_S)
            model.write_history(series, [now - step * model.SCRAPE_S for step in range(steps, -1, -1)], file)
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
    running = Prometheus(f"http://127.0.0.1:{port}", now)
    try:
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
    pytest.fail(f"Prometheus does not start: {log.read_text()[-2000:]}")
