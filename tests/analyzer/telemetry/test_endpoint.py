import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.telemetry import TelemetryError, endpoint
from epochcast.analyzer.telemetry.endpoint import Endpoint, RefusedError, TooLargeError
from epochcast.analyzer.telemetry.settings import AgentSettings

Serve = Callable[[Callable[[Any], Any]], str]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "FIRST_PAUSE_S", 0.001)


def end(url: str, **settings: Any) -> Endpoint:
    return Endpoint("agent", AgentSettings(url=url, **settings))


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_is_busy_is_asked_again(serve: Serve, status: int) -> None:
    asked = []

    def answer(request: Any) -> Any:
        asked.append(request.query)
        return (status, "busy", {"Retry-After": "86400"}) if len(asked) < 3 else '{"a": 1}'

    assert end(serve(answer)).json("/x", [("q", "ü &"), ("q", "2")]) == {"a": 1}
    assert asked == [{"q": ["ü &", "2"]}] * 3


@pytest.mark.parametrize("status", [400, 401, 404, 500, 503])
def test_a_refusal_is_one_sentence(serve: Serve, status: int) -> None:
    url = serve(lambda _: (status, "no\nsuch\nthing " + "x" * 10_000))
    with pytest.raises(RefusedError, match=rf"agent {url}/x answers with status {status}: no such thing xxx") as caught:
        end(url).json("/x")
    assert caught.value.status == status
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("body", ["", "{", '{"a": ', "nonsense", b"\xff\xfe", "[" * 100_000])
def test_what_is_no_json(serve: Serve, body: str | bytes) -> None:
    with pytest.raises(TelemetryError, match="does not answer in JSON") as caught:
        end(serve(lambda _: body)).json("/x")
    assert "\n" not in str(caught.value)


def test_json_that_is_no_object(serve: Serve) -> None:
    with pytest.raises(TelemetryError, match="answers with a JSON list, not an object"):
        end(serve(lambda _: "[1]")).json("/x")


def test_a_body_that_breaks_off(serve: Serve) -> None:
    url = serve(lambda _: (200, b"x" * 100, {"Content-Length": "1000"}))
    with pytest.raises(TelemetryError, match="ended early"):
        end(url).read("/x")


def test_a_body_without_end_is_not_taken(serve: Serve) -> None:
    sent = []

    def without_end() -> Iterator[bytes]:
        while len(sent) < 1000:
            sent.append(1)
            yield b"x" * 2**16

    with pytest.raises(TooLargeError, match=r"answers with more than 1000000 bytes"):
        end(serve(lambda _: (200, without_end()))).read("/x", most=1_000_000)
    assert len(sent) < 1000


def test_an_answer_that_drips_is_left(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "LONGEST_ANSWER_S", 0.2)

    def drops() -> Iterator[bytes]:
        for _ in range(200):
            time.sleep(0.02)
            yield b"x"

    with pytest.raises(TelemetryError, match="is still answering"):
        end(serve(lambda _: (200, drops()))).read("/x")


def test_silence(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "READ_TIMEOUT_S", 0.05)
    url = serve(lambda _: time.sleep(1) or "late")
    with pytest.raises(TelemetryError, match=r"does not answer: .*timed out"):
        end(url).read("/x")


def test_nobody_listens() -> None:
    with pytest.raises(TelemetryError, match=r"agent http://127.0.0.1:1 does not answer: .*refused"):
        end("http://127.0.0.1:1").read("/x")


def test_credentials_are_read_anew_and_shown_to_no_other_host(serve: Serve, tmp_path: Path) -> None:
    seen: list[str | None] = []
    other = serve(lambda request: seen.append("the other host") or "{}")

    def answer(request: Any) -> Any:
        seen.append(request.headers.get("Authorization"))
        return (302, "", {"Location": other}) if request.path == "/moved" else "{}"

    url, secret = serve(answer), tmp_path / "secret"
    secret.write_text("one\n")
    token, basic = end(url, token_file=secret), end(url, user="ann", password_file=secret)
    token.json("/x")
    secret.write_text("two")
    token.json("/x")
    basic.json("/x")
    assert seen == ["Bearer one", "Bearer two", "Basic YW5uOnR3bw=="]
    with pytest.raises(TelemetryError, match=r"status 302|redirect"):
        token.json("/moved")
    assert "the other host" not in seen
    secret.unlink()
    with pytest.raises(TelemetryError, match="No such file"):
        token.json("/x")


def test_files_that_cannot_be_read_are_mistakes_of_the_settings(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        end("http://x", token_file=tmp_path / "none")
    (tmp_path / "ca.pem").write_text("no certificate")
    for name in ("none.pem", "ca.pem"):
        with pytest.raises(InputError, match="is not a readable PEM file"):
            end("https://x", ca=tmp_path / name)


def test_a_certificate_is_checked(serve: Serve) -> None:
    with pytest.raises(TelemetryError, match="does not answer"):
        end(serve(lambda _: "{}").replace("http:", "https:")).json("/x")
