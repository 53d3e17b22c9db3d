import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.analyzer.telemetry import Rows, TelemetryError, agents, endpoint
from epochcast.analyzer.telemetry.agents import AgentSource
from epochcast.analyzer.telemetry.gpu_report import Owner
from epochcast.analyzer.telemetry.settings import AgentSettings


def source(url: str, **settings: Any) -> AgentSource:
    return AgentSource(AgentSettings(url=url, **settings))


def gather(polls: list[list[Rows]]) -> dict[str, dict[str, list[float]]]:
    """Time and power of each GPU over several polls."""
    found: dict[str, dict[str, list[float]]] = {}
    for rows in (one for poll in polls for one in poll):
        gpu = found.setdefault(rows.device.uuid, {"time": [], "power": []})
        gpu["time"] += rows.time.tolist()
        gpu["power"] += rows.values["power"].tolist()
    return found


def test_every_row_of_a_real_agent_once(start_agent: Callable[..., Any], until: Any, tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    rng = np.random.default_rng(0)
    header = {"schema": "epochcast.trace/v1", "gpu": "Tesla T4", "static": {"cuda_cores": {"value": 2560, "source": "nvml"}}}
    truth = {}
    for name, start in (("a", 1000.0), ("b", 1003.0)):
        times, power = start + np.arange(600) / 10, rng.uniform(20, 70, 600).round(2)
        lines = [f"{moment!r},{value!r}" for moment, value in zip(times.tolist(), power.tolist(), strict=True)]
        (tmp_path / "traces" / f"{name}.csv").write_text(f"# {json.dumps(header)}\ntime,power\n" + "\n".join(lines))
        truth[f"replay-{name}"] = (times, power)
    agent = start_agent("--replay", tmp_path / "traces", "--speed", 40)
    reader = source(agent.url, node="node-1", instance="g4dn.xlarge", cloud="aws", region="us-east-1")
    polls = []

    def played() -> bool:
        polls.append(list(reader.poll()))
        return sum(len(rows.time) for poll in polls for rows in poll) == 1200

    until(played)
    assert reader.poll() == []
    assert len(polls) > 2
    found = gather(polls)
    assert found.keys() == truth.keys()
    for uuid, (times, power) in truth.items():
        assert found[uuid]["time"] == times.tolist()
        np.testing.assert_allclose(found[uuid]["power"], power, rtol=1e-6)
    rows = polls[-1][-1]
    device = rows.device
    assert (device.name, device.node, device.source, device.instance) == ("Tesla T4", "node-1", "replay", "g4dn.xlarge")
    assert device.static["cuda_cores"]["value"] == 2560
    assert (rows.hertz, rows.owners) == (10.0, None)
    reader.close()

    # Away and back: nothing is requested twice, and nothing is given twice.
    agent.stop()
    with pytest.raises(TelemetryError, match="does not answer"):
        reader.poll()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "FIRST_PAUSE_S", 0.001)


class Agent:
    """What an agent holds, told as it would: rows of (label, time, power) and GPUs of (label, uuid)."""

    def __init__(self) -> None:
        self.gpus: list[dict[str, Any]] = []
        self.rows: dict[str, list[tuple[float, float]]] = {}
        self.asked: list[dict[str, list[str]]] = []
        self.processes: Any = (404, '{"error": "not looked at"}')
        self.body: Callable[[bytes], Any] = lambda body: body

    def add(self, uuid: str, label: str, rows: list[tuple[float, float]], **more: Any) -> None:
        self.gpus.append(
            {
                "label": label,
                "uuid": uuid,
                "name": "Tesla T4",
                "source": "dcgm",
                "simulated": False,
                "static": {},
                "lag_s": 0.0,
                "interval_s": 0.1,
                **more,
            }
        )
        self.rows[uuid] = rows

    def __call__(self, request: Any) -> Any:
        if request.path == "/api/v1/gpus":
            return json.dumps({"schema": "epochcast.gpus/v1", "gpus": self.gpus})
        if request.path == "/api/v1/processes":
            return self.processes
        self.asked.append(request.query)
        start = float(request.query.get("from", ["-inf"])[0])
        labels = {gpu["uuid"]: gpu["label"] for gpu in self.gpus}
        if unknown := set(request.query["gpu"]) - labels.keys():
            return (400, json.dumps({"error": f"unknown gpu {unknown}"}))
        rows = [
            (labels[uuid], moment, power, np.nan)
            for uuid in labels
            if uuid in request.query["gpu"]
            for moment, power in self.rows[uuid]
            if moment >= start
        ]
        table = np.array(rows, [("gpu", "<U8"), ("time", "<f8"), ("power", "<f4"), ("energy", "<f8")])
        file = io.BytesIO()
        np.lib.format.write_array(file, table, version=(3, 0))
        return self.body(file.getvalue())


def ramp(start: float, stop: float) -> list[tuple[float, float]]:
    return [(k / 10, float(k)) for k in range(round(start * 10), round(stop * 10))]


def test_gpus_read_as_far_are_asked_for_together_and_no_other_again(serve: Any) -> None:
    agent = Agent()
    agent.add("A", "0", ramp(0, 50))
    agent.add("B", "1", ramp(0, 50))
    agent.add("C", "2", ramp(900, 950))
    reader = source(serve(agent))
    assert {rows.device.uuid: len(rows.time) for rows in reader.poll()} == {"A": 500, "B": 500, "C": 500}
    assert [asked["gpu"] for asked in agent.asked] == [["A"], ["B"], ["C"]]  # all that is held may be much
    agent.asked.clear()
    for uuid, at in (("A", 50), ("B", 50), ("C", 950)):
        agent.rows[uuid] += ramp(at, at + 2)
    assert {rows.device.uuid: rows.time[0] for rows in reader.poll()} == {"A": 50.0, "B": 50.0, "C": 950.0}
    assert [(asked["gpu"], asked["from"]) for asked in agent.asked] == [(["A", "B"], ["49.9"]), (["C"], ["949.9"])]


def test_rows_wait_until_none_can_come_before_them(serve: Any) -> None:
    agent = Agent()
    agent.add("A", "0", ramp(0, 10), lag_s=2.0)
    reader = source(serve(agent))
    (rows,) = reader.poll()
    assert rows.time[-1] == pytest.approx(7.9)
    assert reader.poll() == []
    agent.rows["A"] += ramp(10, 12)
    (rows,) = reader.poll()
    assert (rows.time[0], rows.time[-1]) == (pytest.approx(8.0), pytest.approx(9.9))


def test_times_that_cannot_be_are_left_out(serve: Any) -> None:
    agent = Agent()
    agent.add("A", "0", [*ramp(0, 5), (np.inf, 1.0), (np.nan, 1.0)])
    reader = source(serve(agent))
    assert len(reader.poll()[0].time) == 50
    agent.rows["A"] = ramp(0, 6)
    assert [len(rows.time) for rows in reader.poll()] == [10]


def test_a_long_past_comes_in_pieces_the_oldest_first(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent()
    agent.add("A", "0", ramp(0, 100))
    monkeypatch.setattr(agents, "MOST_ROW_BYTES", 300 * 52)  # of a row: 32 + 8 + 4 + 8
    reader = source(serve(agent))
    pieces = [reader.poll() for _ in range(4)]
    assert [len(rows.time) for piece in pieces for rows in piece] == [300, 299, 299, 102]
    assert gather(pieces)["A"]["power"] == list(range(1000))


def test_who_uses_a_gpu(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent()
    agent.add("A", "0", ramp(0, 5))
    agent.add("B", "1", ramp(0, 5))
    row = {"gpu": "0", "uuid": "A", "pid": 7, "process": "python", "user": "ann", "container": "c" * 64}
    row |= {"slurm_job": "12", "pod": "", "memory_bytes": None, "sm_utilization": 0.5}
    reader = source(serve(agent))
    assert [rows.owners for rows in reader.poll()] == [None, None]  # this agent does not look
    monkeypatch.setattr(agents, "NO_PROCESSES_S", 0.0)
    agent.processes = json.dumps({"schema": "epochcast.processes/v1", "processes": [row]})
    reader = source(serve(agent))
    owners = {rows.device.uuid: rows.owners for rows in reader.poll()}
    assert owners == {"A": (Owner(7, "python", "ann", "c" * 64, "12", ""),), "B": ()}
    agent.processes = "nonsense"
    for uuid in "AB":
        agent.rows[uuid] += ramp(5, 6)
    monkeypatch.setattr(agents, "PROCESSES_S", 0.0)
    reader = source(serve(agent))
    assert [rows.owners for rows in reader.poll()] == [None, None]  # samples matter more


def test_a_gpu_that_is_gone_gives_its_label_to_another(serve: Any) -> None:
    agent = Agent()
    agent.add("new", "0", ramp(0, 5))
    agent.add("gone", "0", ramp(0, 3), interval_s=None)
    assert [rows.device.uuid for rows in source(serve(agent)).poll()] == ["new"]


def test_another_gpu_is_noticed_and_one_that_went_is_not_missed(serve: Any) -> None:
    agent = Agent()
    agent.add("A", "0", ramp(0, 5))
    reader = source(serve(agent))
    assert len(reader.poll()) == 1
    agent.gpus.clear()
    agent.add("B", "0", ramp(0, 5))
    with pytest.raises(TelemetryError, match="status 400"):
        reader.poll()
    assert [rows.device.uuid for rows in reader.poll()] == ["B"]
    agent.gpus.clear()
    agent.add("A", "0", ramp(0, 6))
    with pytest.raises(TelemetryError, match="status 400"):
        reader.poll()
    (rows,) = reader.poll()
    assert (rows.device.uuid, rows.time[0]) == ("A", 5.0)  # back again, it is not read from the beginning


def test_a_clock_that_was_set_back(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "SILENT_S", 0.01)
    agent = Agent()
    agent.add("A", "0", ramp(5000, 5010))
    agent.add("R", "1", ramp(5000, 5010), source="replay")
    reader = source(serve(agent))
    assert len(reader.poll()) == 2
    agent.rows["A"], agent.rows["R"] = ramp(1000, 1010), ramp(1000, 1010)
    time.sleep(0.02)
    assert reader.poll() == []  # asked, and found to be earlier
    agent.rows["A"] += ramp(1010, 1012)
    agent.rows["R"] += ramp(1010, 1012)
    time.sleep(0.02)
    (rows,) = reader.poll()  # a replay that began again plays what was read
    assert (rows.device.uuid, rows.time[0]) == ("A", 1010.0)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda body: b"", "ends after 0 of at least 12 bytes"),
        (lambda body: b"<html>busy</html>", "it begins with"),
        (lambda body: body[:60], "ends after"),
        (lambda body: body[:-1], "ends after"),
        (lambda body: body[:8] + (2**30).to_bytes(4, "little"), "its head has 1073741836 bytes"),
        (lambda body: body.replace(b"'time'", b"'tyme'"), "rows of"),
        (lambda body: body.replace(b"<f4", b"|O8"), "rows of|NPY"),
        (lambda body: body.replace(b"{'descr'", b"__import__", 1), "NPY"),
        (lambda body: (500, "down"), "status 500"),
    ],
)
def test_answers_that_are_no_rows(serve: Any, spoil: Callable[[bytes], Any], sentence: str) -> None:
    agent = Agent()
    agent.add("A", "0", ramp(0, 5))
    agent.body = spoil
    reader = source(serve(agent))
    with pytest.raises(TelemetryError, match=sentence) as caught:
        reader.poll()
    assert "\n" not in str(caught.value)
    agent.body = lambda body: body
    assert len(reader.poll()[0].time) == 50  # the same is requested again


@pytest.mark.parametrize(
    "answer",
    [
        '{"schema": "epochcast.gpus/v2", "gpus": []}',
        '{"schema": "epochcast.gpus/v1"}',
        '{"schema": "epochcast.gpus/v1", "gpus": [1]}',
        '{"schema": "epochcast.gpus/v1", "gpus": [{"label": "0"}]}',
        '{"status": "ok"}',
    ],
)
def test_what_is_no_agent(serve: Any, answer: str) -> None:
    with pytest.raises(TelemetryError, match="agent http://") as caught:
        source(serve(lambda _: answer)).poll()
    assert "\n" not in str(caught.value)
