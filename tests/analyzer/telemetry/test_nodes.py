import json
from dataclasses import replace
from typing import Any

import pytest

from epochcast.analyzer.telemetry import TelemetryError, endpoint
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice, Report, epoch_json, report_json
from epochcast.analyzer.telemetry.nodes import NodeSource
from epochcast.analyzer.telemetry.settings import NodeSettings
from epochcast.detector import Detection
from epochcast.regressor.profile_json import read_profile

DEVICE = GpuDevice("GPU-a", "0", "Tesla T4", "node-1")


class Node:
    """A node analyzer: its reports, and the epochs that it has written by now."""

    def __init__(self) -> None:
        self.reports: list[Any] = []
        self.epochs: list[EpochRecord] = []
        self.asked: list[dict[str, list[str]]] = []

    def tell(self, epochs: list[EpochRecord], *, written: int | None = None, device: GpuDevice = DEVICE) -> None:
        plain = tuple(replace(epoch, profile=None) for epoch in epochs)
        report = Report(device, "answered", Detection("epochs", 10.0, None, (), 0.9, "track", "wall"), 0.0, len(epochs), plain)
        self.reports = [report_json(report)]
        self.epochs = epochs[:written]

    def __call__(self, request: Any) -> Any:
        if request.path == "/api/v1/reports":
            return json.dumps({"schema": "epochcast.reports/v1", "reports": self.reports})
        self.asked.append(request.query)
        since = float(request.query.get("since", ["-inf"])[0])
        epochs = [epoch_json(epoch) for epoch in self.epochs if epoch.end > since]
        return json.dumps({"schema": "epochcast.epochs/v1", "gpu": request.query["gpu"][0], "epochs": epochs})


def epoch(start: float, end: float) -> EpochRecord:
    statistics = dict.fromkeys(("mean", "std", "min", "p25", "p50", "p75", "max"), 0.5)
    values = {"gpu": "T4", "epoch_s": end - start, "unit": "epoch", "epochs": 1, "feature_set": "nvml"}
    values |= {"first_epoch_excluded": False, "metrics": {"gpu_utilization": statistics}}
    profile = read_profile({"schema": "epochcast.profile/v1", **values})
    return EpochRecord(start, end, 0.9, 0.0, profile)


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def source(node: Node, serve: Any, monkeypatch: pytest.MonkeyPatch) -> NodeSource:
    monkeypatch.setattr(endpoint, "FIRST_PAUSE_S", 0.001)
    return NodeSource(NodeSettings(url=serve(node), instance="g4dn.xlarge", cloud="aws", region="us-east-1"))


def starts(source: NodeSource) -> list[float]:
    (told,) = source.poll()
    assert all(epoch.profile is not None for epoch in told.epochs)
    return [epoch.start for epoch in told.epochs]


def test_epochs_come_once_with_their_profiles(node: Node, source: NodeSource) -> None:
    epochs = [epoch(0, 10), epoch(10, 20)]
    node.tell(epochs)
    assert starts(source) == [0, 10]
    assert starts(source) == []
    assert len(node.asked) == 1  # what is known is not requested
    node.tell([*epochs, epoch(20, 30)])
    assert starts(source) == [20]
    assert node.asked[-1]["since"] == ["19.999"]


def test_an_epoch_that_was_found_anew_comes_again(node: Node, source: NodeSource) -> None:
    node.tell([epoch(0, 10), epoch(10, 20), epoch(20, 30)])
    assert starts(source) == [0, 10, 20]
    node.tell([epoch(0, 10), epoch(10, 20.4), epoch(20.4, 30)])
    assert starts(source) == [10, 20.4]


def test_epochs_that_the_node_has_not_written_yet_are_asked_for_again(node: Node, source: NodeSource) -> None:
    epochs = [epoch(0, 10), epoch(10, 20), epoch(20, 30)]
    node.tell(epochs, written=1)
    assert starts(source) == [0]
    assert starts(source) == []
    node.tell(epochs)
    assert starts(source) == [10, 20]
    assert starts(source) == []


def test_what_is_rented_the_node_says_itself_or_the_settings(node: Node, source: NodeSource) -> None:
    node.tell([])
    (told,) = source.poll()
    assert (told.report.device.instance, told.report.device.cloud) == ("g4dn.xlarge", "aws")
    node.tell([], device=replace(DEVICE, instance="p3.2xlarge", cloud="aws", region="eu-west-1"))
    (told,) = source.poll()
    assert (told.report.device.instance, told.report.device.region) == ("p3.2xlarge", "eu-west-1")


def test_one_report_that_cannot_be_read_costs_no_other(node: Node, source: NodeSource) -> None:
    node.tell([])
    whole = node.reports[0]
    node.reports = [{**whole, "schema": "epochcast.gpu-report/v9"}, whole]
    assert [told.report.device.uuid for told in source.poll()] == ["GPU-a"]
    node.reports = [{**whole, "schema": "epochcast.gpu-report/v9"}]
    with pytest.raises(TelemetryError, match=r"this version reads 'epochcast.gpu-report/v4': upgrade node and service"):
        source.poll()


@pytest.mark.parametrize("reports", [None, 5, [None], [[]], [{"schema": "epochcast.gpu-report/v4"}]])
def test_reports_that_are_none(node: Node, source: NodeSource, reports: Any) -> None:
    node.reports = reports
    with pytest.raises(TelemetryError, match="node analyzer http://") as caught:
        source.poll()
    assert "\n" not in str(caught.value)


def test_epochs_that_are_none_are_asked_for_again(node: Node, source: NodeSource, monkeypatch: pytest.MonkeyPatch) -> None:
    node.tell([epoch(0, 10)])
    monkeypatch.setattr(f"{__name__}.epoch_json", lambda _: {"start": 1}, raising=True)
    with pytest.raises(TelemetryError, match="does not list epochs of GPU-a"):
        source.poll()
    monkeypatch.undo()
    monkeypatch.setattr(endpoint, "FIRST_PAUSE_S", 0.001)
    assert starts(source) == [0]
