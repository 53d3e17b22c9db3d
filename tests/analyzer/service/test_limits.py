"""What keeps a client from asking too much, or at all: token, body size, rate, requests at once, slow bodies; all counted."""

import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from prometheus_client import CollectorRegistry
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.service import limits as limits_module
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.auth import REFUSAL
from epochcast.analyzer.service.config import LimitSettings
from epochcast.analyzer.service.limits import Places
from epochcast.analyzer.service.parts import Parts
from epochcast.analyzer.service.request_metrics import RequestMetrics
from epochcast.common.authentication import bearer_token
from epochcast.regressor.profile import METRICS, STATISTICS

from .test_api import problem

TOKEN = "a-token-that-nobody-guesses"

Client = Callable[..., TestClient]


@pytest.fixture
def client_with(parts: Parts, tmp_path: Path) -> Client:
    """Makes clients of the service with other limits, or with a token."""

    def make(token: str | None = None, **limits: Any) -> TestClient:
        settings = parts.settings.model_copy(update={"limits": parts.settings.limits.model_copy(update=limits)})
        if token:
            (tmp_path / "token").write_text(token)
        authentication = bearer_token(tmp_path / "token", REFUSAL) if token else None
        other = replace(parts, settings=settings, authentication=authentication, registry=CollectorRegistry())
        client = TestClient(create_app(other), raise_server_exceptions=False)
        client.refused = lambda reason: other.registry.get_sample_value(  # type: ignore[attr-defined]
            "epochcast_analyzer_refused_requests_total", {"reason": reason}
        )
        return client

    return make


@pytest.mark.parametrize("sent", [{}, {"Authorization": "Bearer wrong"}])
def test_without_the_token_nothing_is_told(client_with: Client, sent: dict[str, str]) -> None:
    client = client_with(TOKEN)
    for path in ("/", "/api/v1/gpus", "/metrics", "/openapi.json", "/nothing", "/healthz/x"):
        response = client.get(path, headers=sent)
        problem(response, 401)
        assert "Basic realm" in response.headers["www-authenticate"]
    assert client.refused("unauthorized") == 6  # type: ignore[attr-defined]
    for path in ("/healthz", "/readyz"):
        assert client.get(path, headers=sent).json() == {"status": "ok"}
    assert client.get("/api/v1/gpus", headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200
    assert client.get("/api/v1/gpus", auth=("anybody", TOKEN)).status_code == 200


def test_a_body_that_says_it_is_too_large_is_refused_unread(client_with: Client) -> None:
    client = client_with(body_bytes=2048)
    json_type = {"Content-Type": "application/json"}
    assert "2049 bytes" in problem(client.post("/api/v1/predictions", content=b" " * 2049, headers=json_type), 413)
    problem(client.post("/api/v1/predictions", content=b" " * 2048, headers=json_type), 422)
    for wrong in ("-1", "1e3", "9" * 30):
        problem(client.post("/api/v1/predictions", content=b"", headers=json_type | {"Content-Length": wrong}), 413)
    assert client.refused("body") == 4  # type: ignore[attr-defined]


def test_a_body_that_does_not_say_its_size_is_counted(client_with: Client) -> None:
    client = client_with(body_bytes=2048)
    chunks = iter([b" " * 1000] * 3)
    response = client.post("/api/v1/traces/detections", content=chunks, headers={"Content-Type": "text/csv"})
    assert "content-length" not in response.request.headers
    assert "more than 2048" in problem(response, 413)
    assert client.refused("body") == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [b'"k": 1,', b"[]", b"{}"], ids=["keys", "lists", "objects"])
def test_a_json_body_of_too_many_values_is_refused_unparsed(client_with: Client, value: bytes) -> None:
    body = b'{"profiles": [' + 30_000 * value  # cut off: it is not valid JSON
    client, kind = client_with(), {"Content-Type": "application/json"}
    paths = ["/predictions", "/recommendations"]
    if find_spec("torch"):  # without it the other backends are not there to be asked
        paths.append("/backends/distributed")
    for path in paths:
        answer = client.post(f"/api/v1{path}", content=body, headers=kind)
        assert "values; send at most 20000" in problem(answer, 413)
    assert "send at most" in problem(client.put("/api/v1/jobs/slurm-4711/plan", content=body, headers=kind), 413)
    page = client.post("/try", files={"file": ("job.json", body)})
    assert page.status_code == 422
    assert "values; send at most 20000" in page.text


def test_the_most_profiles_of_every_metric_are_not_too_many_values(client_with: Client) -> None:
    profile = example_profile()
    ratios = dict.fromkeys(STATISTICS, 0.5)
    whole = profile | {"metrics": {name: ratios | profile["metrics"].get(name, {}) for name in METRICS}}
    body = json.dumps({"profiles": [whole] * 64}, indent=1)
    response = client_with().post("/api/v1/predictions", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 200, response.text


def answered_while_bodies_trickle(client: TestClient, count: int) -> tuple[list[httpx2.Response], list[httpx2.Response]]:
    """Answers to /metrics and to a question while so many bodies never become whole, and to these bodies; all are over then."""

    async def ask() -> tuple[list[httpx2.Response], list[httpx2.Response]]:
        meanwhile: list[httpx2.Response] = []
        slow: list[httpx2.Response] = []
        transport = httpx2.ASGITransport(client.app, client=("192.0.2.1", 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as other:

            async def never_whole() -> AsyncIterator[bytes]:
                yield b"time,"
                await anyio.sleep_forever()

            async def trickle() -> None:
                kind = {"Content-Type": "text/csv"}
                slow.append(await other.post("/api/v1/traces/detections", content=never_whole(), headers=kind))

            async with anyio.create_task_group() as group:
                for _ in range(count):
                    group.start_soon(trickle)
                await anyio.sleep(0.1)
                meanwhile.append(await other.get("/metrics"))
                meanwhile.append(await other.post("/api/v1/predictions", json={}))
        return meanwhile, slow

    return anyio.run(ask)


def test_slow_bodies_make_room_for_others_and_are_given_up(client_with: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "BODY_S", 0.5)
    client = client_with(requests_at_once=4)
    (metrics, question), slow = answered_while_bodies_trickle(client, 9)
    assert metrics.status_code == 200
    problem(question, 422)  # it was received and checked
    assert len(slow) == 9
    for response in slow:
        assert "arrived too slowly" in problem(response, 503)
        assert response.headers["retry-after"] == "5"
        assert response.headers["connection"] == "close"
    assert client.refused("busy") == 9  # type: ignore[attr-defined]


def test_a_body_may_take_longer_while_it_comes(client_with: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "BODY_S", 0.5)
    monkeypatch.setattr(limits_module, "PACE", 1)

    async def ask() -> httpx2.Response:
        async def slowly() -> AsyncIterator[bytes]:
            for part in (b'{"pro', b'files": ', b"[]}"):
                yield part
                await anyio.sleep(0.3)

        transport = httpx2.ASGITransport(client_with().app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as other:
            return await other.post("/api/v1/predictions", content=slowly(), headers={"Content-Type": "application/json"})

    problem(anyio.run(ask), 422)


Requests = list[tuple[str, str]]
"""From which address, and with what content type; "" has no body."""


@pytest.mark.parametrize(
    ("others", "own", "busy"),
    [
        (7 * [("192.0.2.1", "application/json")], ("192.0.2.1", "application/json"), "4 requests of 192.0.2.1"),
        ([(f"192.0.2.{n}", "application/json") for n in range(9)], ("192.0.2.9", "application/json"), "4 of them with JSON"),
        ([(f"192.0.2.{n}", "application/json") for n in range(9)], ("192.0.2.9", "text/csv"), ""),
        ([(f"192.0.2.{n}", "application/json") for n in range(9)], ("192.0.2.9", ""), ""),
        ([(f"192.0.2.{n}", "") for n in range(9)], ("192.0.2.9", ""), "4 of them with nothing"),
        ([(f"192.0.2.{n}", "") for n in range(9)], ("192.0.2.9", "application/json"), ""),
    ],
)
def test_every_kind_of_request_keeps_a_place_and_no_address_has_all(
    monkeypatch: pytest.MonkeyPatch, others: Requests, own: tuple[str, str], busy: str
) -> None:
    monkeypatch.setattr(limits_module, "_PAUSE_S", 0.0)
    arrived: list[str] = []

    async def hang(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/hang":
            arrived.append(scope["path"])
            await anyio.sleep_forever()
        await Response("answered")(scope, receive, send)

    places = Places(hang, LimitSettings(requests_at_once=8), RequestMetrics(CollectorRegistry()))

    async def request(path: str, address: str, kind: str) -> httpx2.Response:
        transport = httpx2.ASGITransport(places, client=(address, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post(path, content=b"{}" if kind else b"", headers={"Content-Type": kind} if kind else {})

    async def arrive(other: tuple[str, str]) -> None:
        arrived.append((await request("/hang", *other)).text)  # that of one without a place

    async def ask() -> httpx2.Response:
        async with anyio.create_task_group() as group:
            for other in others:
                group.start_soon(arrive, other)
            while len(arrived) < len(others):
                await anyio.sleep(0.01)
            answer = await request("/", *own)
            group.cancel_scope.cancel()
        return answer

    answer = anyio.run(ask)
    if busy:
        assert busy in problem(answer, 503)
        assert answer.headers["retry-after"] == "1"
    else:
        assert answer.text == "answered"


def test_a_stranger_is_refused_before_its_body_is_read(client_with: Client) -> None:
    _, slow = answered_while_bodies_trickle(client_with(TOKEN), 1)
    problem(slow[0], 401)


def test_every_answer_has_the_headers_that_browsers_obey(client_with: Client) -> None:
    client = client_with(TOKEN)
    for path, status in (("/healthz", 200), ("/api/v1/gpus", 401)):
        response = client.get(path)
        assert response.status_code == status
        assert "default-src 'self'" in response.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert not [name for name in response.headers if name.startswith("access-control")]


def test_label_values_are_not_made_by_clients(client_with: Client) -> None:
    client = client_with()
    for number in range(5):
        client.request(f"M{number}", f"/made-up/{number}")
    page = client.get("/metrics").text
    assert 'epochcast_analyzer_requests_total{method="other",route="none",status="404"} 5.0' in page
    assert "made-up" not in page


def test_predictions_take_turns_and_the_page_does_not_wait_for_them(
    client_with: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, computing, end = client_with().app, [], threading.Event()

    def compute(*_: object) -> Any:
        computing.append(1)
        assert end.wait(120)
        raise InputError("nothing to predict")

    monkeypatch.setattr(app.state.parts.advisor, "answer", compute)  # type: ignore[attr-defined]

    async def ask() -> tuple[int, int, list[int]]:
        statuses: list[int] = []
        transport = httpx2.ASGITransport(app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def predict() -> None:
                answer = await client.post("/api/v1/predictions", json={"profiles": [example_profile()]})
                statuses.append(answer.status_code)

            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(predict)
                while not computing:
                    await anyio.sleep(0.01)
                await anyio.sleep(0.1)
                page, at_once = await client.get("/"), len(computing)
                end.set()
        return page.status_code, at_once, statuses

    assert anyio.run(ask) == (200, 1, [422] * 5)
    assert len(computing) == 5
