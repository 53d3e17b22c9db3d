"""What the node analyzer answers, asked without a network."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.node.config import NodeConfig
from epochcast.analyzer.node.process import Api
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice, Report, read_report
from epochcast.common.settings_file import load
from epochcast.detector import Detection

from ... import wsgi

FOUND = Detection("epochs", 10.0, None, (), 0.9, "track", "wall")
REPORT = Report(GpuDevice("GPU-1", "0", "Tesla T4", "n"), "answered", FOUND, 0.0, 2, last_sample=25.0)
Ask = Callable[..., tuple[int, dict[str, str], Any]]


@pytest.fixture
def watcher() -> SimpleNamespace:
    source = SourceStatus("agent", "http://127.0.0.1:9911", up=True)
    health = WatcherHealth(gpus=1, turn_s=0.1)
    return SimpleNamespace(reports={"GPU-1": REPORT}, sources=[source], health=health, report=WatcherReport(health, [source]))


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    made = StateStore(tmp_path / "state.db")
    made.write_gpus([GpuChange(REPORT, [EpochRecord(0.0, 10.0, 0.9, 0.0), EpochRecord(10.0, 20.0, 0.9, 0.0)])])
    return made


@pytest.fixture
def ask(watcher: SimpleNamespace, store: StateStore) -> Ask:
    api = Api(watcher, store)

    def one(path: str, query: str = "", method: str = "GET") -> tuple[int, dict[str, str], Any]:
        status, headers, body = wsgi.ask(api, path, query, method)
        assert method == "HEAD" or len(body) == int(headers["Content-Length"])
        return status, headers, json.loads(body) if body and "json" in headers["Content-Type"] else body

    return one


def test_reports_and_epochs(ask: Ask) -> None:
    _, _, told = ask("/api/v1/reports")
    assert [read_report(one) for one in told["reports"]] == [REPORT]
    _, _, told = ask("/api/v1/epochs", "gpu=GPU-1")
    assert [(one["start"], one["end"]) for one in told["epochs"]] == [(0, 10), (10, 20)]


@pytest.mark.parametrize(
    ("path", "query", "method", "status", "said"),
    [
        ("/api/v1/report", "", "GET", 404, "/api/v1/reports"),
        ("/api/v1/reports", "", "POST", 405, "GET"),
        ("/api/v1/epochs", "", "GET", 400, "GPU-1"),
        ("/api/v1/epochs", "gpu=GPU-9", "GET", 404, "GPU-9"),
        ("/api/v1/epochs", "gpu=GPU-1&since=yesterday", "GET", 400, "yesterday"),
        ("/api/v1/epochs", "gpu=GPU-1&since=nan", "GET", 400, "nan"),
        ("/api/v1/epochs", "gpu=GPU-1&limit=0", "GET", 400, "limit"),
        ("/api/v1/epochs", "gpu=GPU-1&limit=1e9", "GET", 400, "limit"),
        ("/api/v1/epochs", "gpu=GPU-1&until=3", "GET", 400, "until"),
    ],
)
def test_what_cannot_be_answered(ask: Ask, path: str, query: str, method: str, status: int, said: str) -> None:
    code, headers, told = ask(path, query, method)
    assert (code, headers["Content-Type"]) == (status, "application/json")
    assert said in told["error"]


def test_a_state_that_cannot_be_read_is_a_503(ask: Ask, store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(store, "epochs", broken)
    status, headers, told = ask("/api/v1/epochs", "gpu=GPU-1")
    assert (status, headers["Retry-After"]) == (503, "5")
    assert "malformed" in told["error"]


def test_health_sees_a_detection_that_hangs(ask: Ask, watcher: SimpleNamespace) -> None:
    assert ask("/healthz")[0] == 200
    watcher.health.turn_s = 61.0
    assert ask("/healthz")[0] == 503


def test_health_names_a_state_that_cannot_be_written(ask: Ask, watcher: SimpleNamespace) -> None:
    watcher.health.store_error = "database or disk is full"
    status, _, answer = ask("/healthz")
    assert (status, answer["status"]) == (200, "the state cannot be written: database or disk is full")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 3", "unknown setting 'prot'; did you mean 'port'"),
        ("keep_days = 0", "keep_days is 0"),
        ('pipeline = "magic"', "choose from default, paper"),
        ("interval = 0.01", "interval is 0.01"),
        ("user = 'me'", "belong together"),
        ("host = ''", "host is empty"),
    ],
)
def test_settings_that_are_wrong(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "node.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        load(NodeConfig, file, {})


def test_every_setting_is_documented() -> None:
    assert NodeConfig.__doc__ is not None
    for field in fields(NodeConfig):
        assert f"``{field.name}``" in NodeConfig.__doc__
