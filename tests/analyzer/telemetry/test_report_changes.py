"""What a node sends again: reports that have changed, and of the others the pulse."""

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest

from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport
from epochcast.analyzer.node import process
from epochcast.analyzer.node.process import Api
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice, Report
from epochcast.analyzer.telemetry.nodes import NodeSource
from epochcast.analyzer.telemetry.settings import NodeSettings
from epochcast.detector import Detection

EPOCH = EpochRecord(0.0, 10.0, 0.9, 0.0)
FOUND = Detection("epochs", 10.0, None, (), 0.9, "track", "wall")


def report(number: int) -> Report:
    device = GpuDevice(f"GPU-{number}", str(number), "Tesla T4", "n")
    return Report(device, "answered", FOUND, 0.0, 1, (EPOCH,), last_sample=10.0, samples=100)


class Node:
    """A node analyzer's answers over a watcher and a store that a test sets."""

    def __init__(self) -> None:
        self.watcher = SimpleNamespace(reports={f"GPU-{n}": report(n) for n in range(5)})
        self.watcher.report = WatcherReport(WatcherHealth())
        self.requests: list[str] = []
        self.sent: list[list[str]] = []
        self.restart()

    def restart(self) -> None:
        epochs = lambda gpu, **_: [EPOCH]  # noqa: E731
        self.api = Api(self.watcher, SimpleNamespace(epochs=epochs))  # type: ignore[arg-type]

    def __call__(self, request: Any) -> Any:
        query = "&".join(f"{name}={value}" for name, (value,) in request.query.items()) or "since="
        environ = {"PATH_INFO": request.path, "QUERY_STRING": query, "REQUEST_METHOD": "GET"}
        setup_testing_defaults(environ)
        body = b"".join(self.api(environ, lambda *_: None))
        self.requests.append(request.path)
        if request.path == "/api/v1/reports":
            self.sent.append([one["device"]["uuid"] for one in json.loads(body)["reports"]])
        return body

    def set(self, uuid: str, **values: Any) -> None:
        self.watcher.reports = self.watcher.reports | {uuid: replace(self.watcher.reports[uuid], **values)}


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def source(node: Node, serve: Callable[[Any], str]) -> NodeSource:
    return NodeSource(NodeSettings(url=serve(node)))


def read(source: NodeSource) -> dict[str, Report]:
    return {one.report.device.uuid: one.report for one in source.poll()}


def test_what_has_not_changed_is_not_sent_again(node: Node, source: NodeSource) -> None:
    assert read(source) == node.watcher.reports
    node.set("GPU-1", last_sample=11.0, samples=110)
    node.set("GPU-2", state="idle", last_sample=12.0)
    assert read(source) == node.watcher.reports
    assert node.sent == [[f"GPU-{number}" for number in range(5)], ["GPU-2"]]
    node.requests.clear()
    again = read(source)
    assert node.requests == ["/api/v1/reports"] and all(again[uuid] is kept for uuid, kept in read(source).items())


def test_a_node_that_was_restarted_sends_all(node: Node, source: NodeSource) -> None:
    read(source)
    node.restart()
    node.set("GPU-1", last_sample=11.0)
    assert read(source) == node.watcher.reports
    assert len(node.sent[-1]) == 5


def test_many_come_in_pages(node: Node, source: NodeSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "REPORTS", 2)
    assert read(source) == node.watcher.reports
    assert [len(page) for page in node.sent] == [2, 2, 1]
    for number in range(3):
        node.set(f"GPU-{number}", detection=replace(FOUND, period_s=11.0))
    assert read(source) == node.watcher.reports
    assert [len(page) for page in node.sent[3:]] == [2, 1]


def test_what_is_wrong_at_a_node_is_passed_on(node: Node, source: NodeSource) -> None:
    agent = SourceStatus("agent", "http://127.0.0.1:9911", error="agent http://127.0.0.1:9911 does not answer: refused")
    node.watcher.report = WatcherReport(WatcherHealth(store_error="disk full"), [agent])
    source.poll()
    assert [problem.startswith(f"{source.name}: ") for problem in source.problems] == [True, True]
    assert "does not answer: refused" in source.problems[0] and "disk full" in source.problems[1]
