"""The dashboards before the real chain: their panels' queries give what was replayed, and what the service's API tells."""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.agent.config import Config

AGREE = 0.01
# Nine scrapes of one second, whether or not a range takes its oldest moment in.
RATE_S, RATE = 8.0, "8500ms"
GPU = "replay-four-0"

# What the replayed jobs have none of: steps, refusals, silent or failing parts, alerts (no rules are loaded), profiling columns
# and sensors that are not in the recordings.
EMPTY = {
    ("epochcast-fleet", "Alerts that fire", "A"),
    ("epochcast-gpu", "Length of epochs", "C"),
    ("epochcast-gpu", "Power", "B"),
    ("epochcast-gpu", "Power", "C"),
    ("epochcast-gpu", "PCIe and NVLink", "C"),
    ("epochcast-gpu", "PCIe and NVLink", "D"),
    ("epochcast-gpu", "Readings that are missing", "B"),
    ("epochcast-job", "Typical length", "B"),
    ("epochcast-agents", "What is missing, per second", "C"),
    ("epochcast-agents", "Age of the newest sample", "A"),
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


@pytest.fixture(scope="module")
def panels(chain: Any, root: Path) -> Panels:
    chain.wait(lambda: len(chain.query("epochcast_gpu_epoch_seconds")) == len(chain.gpus))
    chain.wait(lambda: len(chain.query('epochcast_job_savings_ratio{objective="cost"}')) == len(chain.jobs()) == 4)
    # Prometheus has scraped what the service tells since its last round.
    settled = [job["epochs_seen"] for job in chain.jobs().values()]
    chain.wait(lambda: sorted(float(row["value"][1]) for row in chain.query("epochcast_job_epochs_total")) == sorted(settled))
    return Panels(chain, root / "dashboards" / "grafana")


@pytest.fixture(scope="module")
def playing(chain: Any) -> Playing:
    return Playing(chain)


def test_every_query_is_answered(panels: Panels, playing: Playing) -> None:
    """None is refused, and each has data while the jobs run or at their end, but for what they have none of."""
    empty = {key for key in panels.queries if not _some(panels, key, None) and not _some(panels, key, playing.moment)}
    assert empty <= EMPTY


def _some(panels: Panels, key: tuple[str, str, str], moment: float | None) -> bool:
    expression = panels.queries[key]
    labels = " ".join(dict.fromkeys(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", expression)))))
    return bool(panels.ask(key[0].removeprefix("epochcast-"), *key[1:], by=labels, at=moment))


def test_periods_and_epochs_of_gpus(chain: Any, panels: Panels) -> None:
    once_scraped(lambda: _assert_gpus(chain, panels))


def _assert_gpus(chain: Any, panels: Panels) -> None:
    gpus = {gpu.uuid: gpu for gpu in chain.gpus}
    periods = {(uuid,): gpu.period_s for uuid, gpu in gpus.items()}
    told = {row["uuid"]: row for row in chain.service.json("/api/v1/gpus")["gpus"]}
    assert panels.one("fleet", "GPUs watched") == len(gpus)
    assert panels.ask("fleet", "GPUs", "B", by="uuid") == pytest.approx(periods, rel=AGREE)
    assert panels.ask("fleet", "GPUs", "C", by="uuid") == pytest.approx(
        {(uuid,): row["confidence"] for uuid, row in told.items()}, rel=AGREE
    )
    assert panels.ask("fleet", "GPUs", "D", by="uuid") == {(uuid,): len(gpu.epochs) for uuid, gpu in gpus.items()}
    states = {"idle": 0, "searching": 1, "answered": 2}
    assert panels.ask("fleet", "GPUs", "A", by="uuid") == {(uuid,): states[row["state"]] for uuid, row in told.items()}
    for uuid, gpu in gpus.items():
        assert panels.one("gpu", "Epoch or step", gpu=uuid) == pytest.approx(gpu.period_s, rel=AGREE)
        assert panels.one("gpu", "Epochs seen", gpu=uuid) == len(gpu.epochs)
        start, end = gpu.epochs[-1]
        assert panels.one("gpu", "annotation", gpu=uuid) / 1000 == pytest.approx(end, abs=0.3)
        # Each of its two ends is found to 0.3 s.
        assert panels.one("gpu", "Length of epochs", gpu=uuid) == pytest.approx(end - start, abs=0.6)
        assert panels.one("gpu", "Confidence", gpu=uuid) == pytest.approx(told[uuid]["confidence"], rel=AGREE)
    assert set(panels.ask("fleet", "GPUs", "B", by="node", node="nowhere")) == set()


def once_scraped(check: Callable[[], None]) -> None:
    """Let a check hold within some scrapes: the service tells a new round's answers at once, Prometheus a second later."""
    deadline = time.monotonic() + 20
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def test_jobs_their_predictions_and_what_is_recommended(chain: Any, panels: Panels) -> None:
    once_scraped(lambda: _assert_jobs(chain, panels))


def _assert_jobs(chain: Any, panels: Panels) -> None:
    for name, job in chain.jobs().items():
        of = {"training_job": job["id"]}
        gpus = [gpu for gpu in chain.gpus if gpu.job == name]
        assert panels.one("job", "GPUs", **of) == len(gpus)
        assert panels.one("job", "Epoch or step", **of) == pytest.approx(gpus[0].period_s, rel=AGREE)
        assert panels.one("job", "Epochs so far", **of) == len(gpus[0].epochs)
        assert panels.ask("job", "Its GPUs", by="uuid", **of) == pytest.approx(
            {(gpu.uuid,): gpu.period_s for gpu in gpus}, rel=AGREE
        )
        behind = panels.ask("job", "Behind the fastest", by="uuid", **of)
        assert behind == pytest.approx({(gpu.uuid,): 0.0 for gpu in gpus}, abs=AGREE)
        prediction = chain.service.json(f"/api/v1/jobs/{job['id']}/prediction")["predictions"]
        keys = ("low", "seconds", "high", "ratio", "support")
        for ref_id, key in zip("ABCDE", keys, strict=True):
            told = {(row["gpu"],): row[key] for row in prediction}
            assert panels.ask("job", "Predictions", ref_id, by="target_gpu", **of) == pytest.approx(told, rel=AGREE), key
        for ref_id, key in zip("ABC", ("ratio_low", "ratio", "ratio_high"), strict=True):
            told = {(row["gpu"],): row[key] for row in prediction}
            assert panels.ask("job", "Time there over time here", ref_id, by="target_gpu", **of) == pytest.approx(
                told, rel=AGREE
            )
        answer = chain.service.json(f"/api/v1/jobs/{job['id']}/recommendation")
        best = {(key,): answer[which] for key, which in (("cost", "cheapest"), ("time", "fastest"))}
        assert set(panels.ask("job", "Recommended", by="objective instance_type", **of)) == {
            (*key, row["instance"]) for key, row in best.items()
        }
        for ref_id, field in (("B", "seconds"), ("C", "usd")):
            told = {key: row[field] for key, row in best.items()}
            assert panels.ask("job", "Recommended", ref_id, by="objective", **of) == pytest.approx(told, rel=AGREE), field
        assert panels.one("job", "Could be saved", **of) == pytest.approx(answer["savings"]["cost_ratio"], abs=AGREE / 10)


def test_what_agents_measure_is_what_was_replayed(chain: Any, panels: Panels, playing: Playing) -> None:
    (gpu,) = (gpu for gpu in chain.gpus if gpu.uuid == GPU)
    activity = ("sm_active", "sm_occupancy", "tensor_active", "fp32_active", "fp16_active", "dram_active")
    # rate() is per second of the wall, of which there are fewer than of the recording.
    faster = (playing.scrapes[-1] - playing.scrapes[0]) / RATE_S
    assert faster == pytest.approx(chain.speed, rel=0.2)
    for panel, columns in (
        ("What works on the chip", activity),
        ("Utilisation as the driver tells it", ("gpu_utilization", "memory_utilization")),
        ("Power", ("power",)),
    ):
        for ref_id, column in zip("ABCDEF", columns, strict=False):
            rate = panels.one("gpu", panel, ref_id, at=playing.moment)
            assert rate / faster == pytest.approx(playing.mean(gpu, column), rel=AGREE), column
    utilisation = panels.ask("fleet", "Utilisation by GPU", by="uuid", at=playing.moment, node="node-a")
    true = {(one.uuid,): playing.mean(one, "gpu_utilization") * faster for one in chain.gpus if one.node == "a"}
    assert utilisation == pytest.approx(true, rel=AGREE)


@pytest.mark.parametrize(
    ("panel", "ref_id", "column"),
    [
        ("Device memory", "A", "memory_used"),
        ("Device memory", "B", "memory_free"),
        ("Clocks", "A", "sm_clock"),
        ("Clocks", "B", "memory_clock"),
        ("Temperature", "A", "temperature"),
    ],
)
def test_newest_values_are_those_of_the_recording(
    chain: Any, panels: Panels, playing: Playing, panel: str, ref_id: str, column: str
) -> None:
    (gpu,) = (gpu for gpu in chain.gpus if gpu.uuid == GPU)
    recorded = playing.scrapes[-1]
    # Read once a second; the page and its newest time are a few milliseconds of the wall apart.
    near = playing.rows(gpu, column, recorded - 2.0, recorded + 1.0)
    shown = panels.one("gpu", panel, ref_id, at=playing.moment)
    assert np.abs(near / shown - 1).min() <= AGREE


@pytest.mark.parametrize(
    ("panel", "ref_id", "column", "statistic"),
    [
        ("SM activity at 10 Hz: least, mean, most", "A", "sm_active", np.max),
        ("SM activity at 10 Hz: least, mean, most", "C", "sm_active", np.min),
        ("Memory interface at 10 Hz: least, mean, most", "A", "dram_active", np.max),
        ("Memory interface at 10 Hz: least, mean, most", "C", "dram_active", np.min),
        ("PCIe and NVLink", "A", "pcie_rx", np.mean),
        ("PCIe and NVLink", "B", "pcie_tx", np.mean),
    ],
)
def test_windows_are_those_of_the_recording(
    chain: Any, panels: Panels, playing: Playing, panel: str, ref_id: str, column: str, statistic: Callable[..., Any]
) -> None:
    """Statistics of the agent's last whole windows at the scrapes; the last one alone for a mean."""
    (gpu,) = (gpu for gpu in chain.gpus if gpu.uuid == GPU)
    length = Config.window
    shown = panels.one("gpu", panel, ref_id, at=playing.moment)
    candidates = []
    for slip in (-0.3, 0.0, 0.3):
        ends = (playing.scrapes + slip) // length * length
        chosen = ends[-1:] if statistic is np.mean else ends
        # A window holds the readings from its beginning on, and not that of its end.
        of_windows = [statistic(playing.rows(gpu, column, end - length - 0.05, end - 0.05)) for end in chosen]
        candidates.append(float(statistic(of_windows)))
    assert np.abs(np.array(candidates) - shown).min() <= AGREE * max(shown, 1e-3), (shown, candidates)
