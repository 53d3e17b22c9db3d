"""Node analyzers behind one name: those that it stands for now are asked, and one that is dead holds up no other."""

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.telemetry import TelemetryError, endpoint, nodes
from epochcast.analyzer.telemetry.gpu_report import NOTHING, GpuDevice, Report, report_json
from epochcast.analyzer.telemetry.nodes import NodeAddresses
from epochcast.analyzer.telemetry.settings import NodeSettings, opened

REPORT = Report(GpuDevice("GPU-a", "0", "Tesla T4", "node-1"), "searching", NOTHING, None, 0)


class Names:
    """What the name's addresses are now, in place of the resolver."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self._resolver = socket.getaddrinfo

    def __call__(self, host: str, port: int, *more: Any, **named: Any) -> Any:
        if host != "epochcast-nodes":  # all of the addresses lead to the one server
            return self._resolver("127.0.0.1", port, *more, **named)
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self.addresses]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    found = Names()
    monkeypatch.setattr(nodes.socket, "getaddrinfo", found)
    monkeypatch.setattr(endpoint, "FIRST_PAUSE_S", 0.001)
    return found


@pytest.fixture
def asked() -> dict[str, int]:
    return {}


@pytest.fixture
def url(serve: Callable[[Any], str], asked: dict[str, int]) -> str:
    """A server that is a node of its own for each name by which it is asked, but for 127.0.0.3, which is out of order."""

    def answer(request: Any) -> Any:
        host = request.headers["Host"].split(":")[0]
        if request.path == "/api/v1/epochs":
            return json.dumps({"schema": "epochcast.epochs/v1", "epochs": []})
        asked[host] = asked.get(host, 0) + 1
        if host == "127.0.0.3":
            return 404, "no such page"
        device = replace(REPORT.device, uuid=f"GPU-{host}", node=host)
        return json.dumps({"schema": "epochcast.reports/v1", "reports": [report_json(replace(REPORT, device=device))]})

    port = urlsplit(serve(answer)).port
    return f"http://epochcast-nodes:{port}"


def uuids(source: NodeAddresses) -> list[str]:
    return [told.report.device.uuid for told in source.poll()]


def test_every_address_is_a_node_of_its_own(names: Names, url: str) -> None:
    (source,) = opened([NodeSettings(url=url, every_address=True)])
    assert isinstance(source, NodeAddresses)
    names.addresses = ["127.0.0.1", "127.0.0.2"]
    assert uuids(source) == ["GPU-127.0.0.1", "GPU-127.0.0.2"]
    source.close()


def test_nodes_come_and_go(names: Names, url: str, asked: dict[str, int]) -> None:
    source = NodeAddresses(NodeSettings(url=url, every_address=True))
    names.addresses = ["127.0.0.1"]
    assert uuids(source) == ["GPU-127.0.0.1"]
    names.addresses = ["127.0.0.2"]
    assert uuids(source) == ["GPU-127.0.0.2"]
    assert asked["127.0.0.1"] == 1
    names.addresses = []
    with pytest.raises(TelemetryError, match=r"epochcast-nodes:.* has no address"):
        source.poll()


def test_one_that_is_dead_is_left_out_and_left_alone_for_a_while(names: Names, url: str, asked: dict[str, int]) -> None:
    now = 0.0
    source = NodeAddresses(NodeSettings(url=url, every_address=True), clock=lambda: now)
    names.addresses = ["127.0.0.1", "127.0.0.3"]
    assert uuids(source) == uuids(source) == ["GPU-127.0.0.1"]
    assert asked["127.0.0.3"] == 1
    now = nodes.PAUSE_S + 1
    assert uuids(source) == ["GPU-127.0.0.1"]
    assert asked["127.0.0.3"] == 2


def test_nodes_are_asked_at_once(names: Names, serve: Callable[[Any], str]) -> None:
    together = threading.Barrier(4, timeout=30)  # opens when all four are being asked

    def answer(request: Any) -> str:
        together.wait()
        return json.dumps({"schema": "epochcast.reports/v1", "reports": []})

    port = urlsplit(serve(answer)).port
    names.addresses = [f"127.0.0.{number}" for number in range(1, 5)]
    assert NodeAddresses(NodeSettings(url=f"http://epochcast-nodes:{port}", every_address=True)).poll() == []


def test_where_none_answers_the_source_has_failed(names: Names, url: str) -> None:
    source = NodeAddresses(NodeSettings(url=url, every_address=True))
    names.addresses = ["127.0.0.3"]
    with pytest.raises(TelemetryError, match=r"127\.0\.0\.3:.* status 404"):
        source.poll()
    with pytest.raises(TelemetryError, match=r"no node analyzer behind .*epochcast-nodes.* has answered"):
        source.poll()


def test_tls_is_refused_where_no_certificate_can_match() -> None:
    with pytest.raises(InputError, match="every_address polls each address by its number"):
        NodeSettings(url="https://epochcast-nodes:9912", every_address=True)
