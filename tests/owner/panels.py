"""The dashboards before the chain: their panels' queries, and a moment at which to compare them with what was replayed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# Nine scrapes of one second, whether or not a range takes its oldest moment in.
RATE_S, RATE = 8.0, "8500ms"
GPU = "replay-four-0"

# What the replayed jobs have none of: steps and other cycles, refusals, silent or failing parts, alerts (no rules are loaded),
# GPUs that should be there (a replay is no machine), profiling columns, sensors and counters that are not in the recordings;
# nor is the highest clock, which OFU needs. A job has its last id at the end, when agents no longer measure how its GPUs are
# used (tests/dashboards has both).
EMPTY = {
    ("epochcast-fleet", "Firing alerts", "A"),
    ("epochcast-gpu", "Length of epochs", "C"),
    ("epochcast-gpu", "Power", "B"),
    ("epochcast-gpu", "PCIe and NVLink", "C"),
    ("epochcast-gpu", "PCIe and NVLink", "D"),
    *(("epochcast-gpu", "Missing readings", ref_id) for ref_id in "BC"),
    ("epochcast-gpu", "Activity on the chip", "G"),
    ("epochcast-gpu", "Temperature", "B"),
    *(("epochcast-gpu", "Reduced clocks", ref_id) for ref_id in "ABCD"),
    *(("epochcast-gpu", "Errors", ref_id) for ref_id in "ABCD"),
    ("epochcast-fleet", "GPUs", "E"),
    ("epochcast-job", "Its GPUs", "D"),
    ("epochcast-job", "Its GPUs", "E"),
    ("epochcast-job", "Its GPUs", "F"),
    ("epochcast-job", "Typical length", "B"),
    ("epochcast-job", "Typical length", "C"),
    ("epochcast-gpu", "Length of epochs", "D"),
    ("epochcast-agents", "What is missing, per second", "C"),
    ("epochcast-agents", "Age of the newest sample", "A"),
    *(("epochcast-agents", "GPUs", ref_id) for ref_id in "AB"),
    ("epochcast-agents", "Refused requests per second", "A"),
}


class Panels:
    """The committed panels' queries, asked of the chain's Prometheus."""

    def __init__(self, chain: Any, folder: Path) -> None:
        self.chain = chain
        boards = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
        self.queries = {
            (board["uid"], panel["title"], target["refId"]): target["expr"]
            for board in boards
            for panel in board["panels"]
            for target in panel.get("targets", [])
        }
        (annotation,) = boards[2]["annotations"]["list"]
        self.queries["epochcast-gpu", "annotation", "A"] = annotation["expr"]
        self.job = chain.jobs()["four"]["id"]

    def ask(
        self, board: str, panel: str, ref_id: str = "A", *, by: str = "", at: float | None = None, **choices: str
    ) -> dict[tuple[str, ...], float]:
        """Return the values of a query by some labels, now or at a moment [unix s]."""
        expression = self.queries[f"epochcast-{board}", panel, ref_id]
        chosen = {"__rate_interval": RATE, "node": ".+", "instance": ".+", "gpu": GPU, "training_job": self.job, **choices}
        for name, value in chosen.items():
            expression = expression.replace(f"${name}", value)
        moment = {} if at is None else {"time": repr(at)}
        answer = self.chain.prometheus.json("/api/v1/query", query=expression, **moment)
        assert answer["status"] == "success", answer
        rows = answer["data"]["result"]
        values = {tuple(row["metric"].get(label, "") for label in by.split()): float(row["value"][1]) for row in rows}
        assert len(values) == len(rows), f"{panel}: several series for one of {by}: {rows}"
        return values

    def one(self, board: str, panel: str, ref_id: str = "A", **asked: Any) -> float:
        """Return the value of a query that has a single series."""
        (value,) = self.ask(board, panel, ref_id, **asked).values()
        return value


class Playing:
    """A moment in the middle of the replay: a scrape of node a's agent, and how far its recordings were at that and others."""

    def __init__(self, chain: Any) -> None:
        (row,) = chain.query('epochcast_agent_last_sample_timestamp_seconds{job="epochcast-agent",cluster="a"}[10m]')
        scraped, recorded = np.array(row["values"], dtype=float).T
        plays = np.flatnonzero(np.diff(recorded) > 0) + 1
        # Late enough for whole windows and a full interval; of such scrapes one before which none was missed.
        for last in plays[len(plays) // 2 : -1].tolist():
            first = int(np.searchsorted(scraped, scraped[last] - RATE_S - 0.01))
            if last - first == RATE_S:
                break
        else:
            pytest.fail(f"scrapes were missed again and again: {scraped[plays]}")
        self.moment = float(scraped[last])
        self.scrapes = recorded[first : last + 1]

    def rows(self, gpu: Any, column: str, since: float, until: float) -> np.ndarray:
        """Return the recording's readings between two moments of it."""
        inside = (gpu.trace.time > since) & (gpu.trace.time <= until)
        values = gpu.trace.metrics[column][inside]
        return np.asarray(values[~np.isnan(values)])

    def mean(self, gpu: Any, column: str) -> float:
        """Mean over the rate's interval."""
        return float(self.rows(gpu, column, self.scrapes[0], self.scrapes[-1]).mean())
