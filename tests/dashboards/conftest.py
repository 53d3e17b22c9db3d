"""The committed dashboards, and a real Prometheus that holds the history of the modelled fleet."""

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pytest

from lab.speed.processes import prometheus as running_prometheus
from lab.speed.service import modelled_fleet, modelled_series

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


class Prometheus:
    """A running Prometheus, asked as of ``now``."""

    def __init__(self, running: Any, now: float) -> None:
        self._running, self.now = running, now

    def labelled(self, expression: str, **variables: str) -> list[tuple[dict[str, str], float]]:
        """Return what Grafana would get for a query: labels and value of each series."""
        for name, value in {"__rate_interval": RATE_INTERVAL, **variables}.items():
            expression = expression.replace(f"${name}", value)
        assert "$" not in expression, f"a variable without a value in {expression}"
        result = self._running.query(expression, self.now)
        return [(series["metric"], float(series["value"][1])) for series in result]


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus with an hour of the fleet's jobs, and six minutes of its GPUs' metrics, up to a whole minute."""
    for program in ("prometheus", "promtool"):
        if shutil.which(program) is None:
            pytest.skip(f"no {program} on this machine (Debian: apt install prometheus)")
    now = time.time() // 60 * 60.0
    jobs = modelled_fleet.fleet(now)

    def write(file: TextIO) -> None:
        for series, minutes in ((modelled_series.agent_series(jobs, now), 6), (modelled_series.analyzer_series(jobs, now), 61)):
            steps = round(minutes * 60 / modelled_fleet.SCRAPE_S)
            modelled_series.write_history(series, [now - step * modelled_fleet.SCRAPE_S for step in range(steps, -1, -1)], file)

    with running_prometheus(tmp_path_factory.mktemp("prometheus"), write=write) as running:
        yield Prometheus(running, now)
