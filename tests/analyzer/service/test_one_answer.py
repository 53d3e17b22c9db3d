"""One trace through the command, HTTP, a notebook and a fleet gives one answer; the live service gives the same document."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

import epochcast
from epochcast.analyzer.cli import main
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.job import job_json
from epochcast.analyzer.live.gpu_watch import GpuWatch
from epochcast.analyzer.live.state_store import GpuChange
from epochcast.analyzer.plugins.registry import Registry
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.workers import Workers
from epochcast.analyzer.telemetry import Rows
from epochcast.analyzer.telemetry.gpu_report import GpuDevice
from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.simulator import SimulatedTrace, simulate, simulate_class

from .conftest import made

Capture = pytest.CaptureFixture[str]

TRACES: dict[str, Callable[[], SimulatedTrace]] = {
    "epochs": lambda: simulate(3, epochs=10, epoch_s=30.0),
    "steps": lambda: simulate_class("llm_steps", 0),
    "none": lambda: simulate_class("random_walk", 0),
}


def written(drawn: SimulatedTrace, folder: Path) -> Path:
    """Five minutes of it at most, alone in its folder."""
    folder.mkdir()
    frame = pd.DataFrame({"time": drawn.time, **drawn.metrics})[:3000]
    write_trace(Trace(frame, gpu="Tesla T4", source="replay", simulated=True), folder / "run.parquet")
    return folder / "run.parquet"


def of_commands(path: Path, capsys: Capture) -> dict[str, Any]:
    """The documents of both commands."""
    answers = {}
    for command in ("predict", "recommend"):
        assert main([command, str(path), "--json"]) == 0
        answers[command] = json.loads(capsys.readouterr().out)
    return answers


@pytest.mark.parametrize("found", ["steps", "none"])  # of epochs: tests/owner/test_regressor.py
def test_command_http_notebook_and_fleet_give_one_document(
    found: str, client: TestClient, tmp_path: Path, capsys: Capture
) -> None:
    path = written(TRACES[found](), tmp_path / "traces")
    answers = {"command": of_commands(path, capsys), "http": {}}
    for command, address in (("predict", "predictions"), ("recommend", "recommendations")):
        kind = {"Content-Type": "application/vnd.apache.parquet"}
        sent = client.post(f"/api/v1/traces/{address}", content=path.read_bytes(), headers=kind)
        answers["http"][command] = sent.json()
    job = epochcast.read(path)
    asked = {"predict": job.predict().answer, "recommend": job.recommend().answer}
    answers["notebook"] = {command: json.loads(job_json(answer)) for command, answer in asked.items()}
    assert main(["fleet", "analyze", str(path.parent), "--out", str(tmp_path / "fleet")]) == 0
    (row,) = pq.read_table(tmp_path / "fleet" / "jobs.parquet").to_pylist()
    answers["fleet"] = {"recommend": json.loads(row["answer"])["answer"]}
    for way in answers.values():
        for document in way.values():
            (gpu,) = document["gpus"]
            del gpu["name"]  # a path, "the trace", a GPU of a node
    assert answers["command"]["predict"]["gpus"][0]["detection"]["verdict"] == found
    assert answers["http"] == answers["notebook"] == answers["command"]
    assert answers["fleet"]["recommend"] == answers["command"]["recommend"]


def test_the_live_service_gives_the_same_document(
    tmp_path: Path, advisor: Advisor, workers: Workers, backends: Registry, capsys: Capture
) -> None:
    drawn = TRACES["epochs"]()
    expected = of_commands(written(drawn, tmp_path / "traces"), capsys)
    device = GpuDevice("GPU-1", "0", "Tesla T4", "node-a", "replay", simulated=True)
    watch = GpuWatch(device, advisor.catalog)
    for part in np.array_split(np.arange(drawn.time.size), drawn.time.size // 20):
        watch.take(Rows(device, drawn.time[part], {name: values[part] for name, values in drawn.metrics.items()}, 10.0))
    settings = Settings(state=tmp_path / "state.db", hosts=["testserver"], read_only=False)
    for parts in made(settings, lambda store: store.write_gpus([GpuChange(watch.report())]), advisor, workers, backends):
        live = TestClient(create_app(parts))
        (job,) = live.get("/api/v1/jobs").json()["jobs"]
        answer = live.get(f"/api/v1/jobs/{job['id']}").json()
    found, wanted = answer["answer"], expected["recommend"]
    assert shape(found) == shape(wanted)
    lengths = [one["gpus"][0]["profile"]["epoch_s"] for one in (found, wanted)]
    assert lengths[0] == pytest.approx(lengths[1], rel=0.02)
    assert found["notes"] == wanted["notes"]


def shape(value: Any) -> Any:
    """Keys of a document, of the first thing in each list."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value and isinstance(value[0], dict) else None
