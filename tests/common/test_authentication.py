"""The door before an application, and the way of a bearer token."""

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from epochcast.common import authentication
from epochcast.common.authentication import Authentication, bearer_token, guarded, wrong_site
from epochcast.common.errors import InputError

from .. import wsgi
from ..wsgi import Answer

REFUSAL = "send the token"
TOKEN = "a-token-that-nobody-guesses"


def password(token: str) -> str:
    return "Basic " + base64.b64encode(f"anybody:{token}".encode()).decode()


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the token."""
    monkeypatch.setattr(authentication, "LOOK_INTERVAL_S", 0.0)
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


def ask(way: Authentication, authorization: str = "", method: str = "GET") -> Answer:
    """Ask what is behind a door."""

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"hello"]

    return wsgi.ask(guarded(app, "127.0.0.1", (), way), "/x", method=method, authorization=authorization)


@pytest.mark.parametrize(
    "authorization",
    [
        *(
            "",
            "Bearer",
            "Bearer wrong",
            f"Basic {TOKEN}",
            f"Token {TOKEN}",
            TOKEN,
            f"Bearer {TOKEN}2",
            "Bearer \xff",
            "Bearer \udcff",
        ),
        *("Basic !!!", password("wrong"), "Basic " + base64.b64encode(TOKEN.encode()).decode()),
    ],
)
def test_who_does_not_bear_the_token_learns_nothing(token: Path, authorization: str) -> None:
    status, headers, body = ask(bearer_token(token, REFUSAL), authorization)
    assert (status, json.loads(body)) == (401, {"error": REFUSAL})
    assert headers["WWW-Authenticate"].startswith("Bearer realm") and ", Basic realm" in headers["WWW-Authenticate"]
    assert headers["Cache-Control"] == "no-store"
    assert int(headers["Content-Length"]) == len(body)
    status, headers, nothing = ask(bearer_token(token, REFUSAL), authorization, method="HEAD")
    assert (status, int(headers["Content-Length"]), nothing) == (401, len(body), b"")


def test_who_bears_it_is_answered(token: Path) -> None:
    way = bearer_token(token, REFUSAL)
    for authorization in (f"Bearer {TOKEN}", f"bearer  {TOKEN} ", password(TOKEN)):
        assert ask(way, authorization)[::2] == (200, b"hello")


@pytest.mark.parametrize(
    ("address", "hosts", "yes", "no"),
    [
        ("127.0.0.1", (), "localhost LocalHost:9911 localhost. 127.0.0.1:9911 [::1]:9911 10.0.0.7", "evil.example node-7 [::1"),
        ("::1", ("node-7",), "node-7:9911 NODE-7 localhost", "evil.example node-7.example x.node-7 localhost.evil.example"),
        ("0.0.0.0", (), "evil.example node-7:9911 10.0.0.7", ""),
        ("10.0.0.7", ("node-7",), "node-7 10.0.0.7:9911 localhost [fe80::1]:9911", "evil.example 10.0.0.7.example"),
    ],
)
def test_a_name_that_is_not_ours_is_that_of_another_site(address: str, hosts: tuple[str, ...], yes: str, no: str) -> None:
    assert wrong_site(address, hosts, "GET", None, None) is None  # HTTP/1.0
    for host in yes.split():
        assert wrong_site(address, hosts, "GET", host, "http://evil.example") is None, host
    for host in no.split():
        status, said = wrong_site(address, hosts, "GET", host, None) or (0, "")
        assert (status, host in said, "the setting hosts" in said) == (421, True, True), host


def test_only_our_own_pages_may_write() -> None:
    for origin in (None, "http://localhost:9913", "https://proxy.example"):
        assert wrong_site("127.0.0.1", ("proxy.example",), "POST", "localhost:9913", origin) is None, origin
    for origin in (
        "null",
        "http://localhost",
        "http://localhost:80",
        "http://proxy.example.evil",
        "http://127.0.0.1:9913",
        "x://[",
    ):
        status, said = wrong_site("127.0.0.1", ("proxy.example",), "PUT", "localhost:9913", origin) or (0, "")
        assert (status, origin in said, "the setting hosts" in said) == (403, True, True), origin


def test_when_it_cannot_be_told_now_it_says_try_again() -> None:
    seen = []
    busy = Authentication(lambda *sent: seen.append(sent), "Basic", REFUSAL)
    status, headers, body = ask(busy, "Basic YTpi")
    assert seen == [("basic", "YTpi")]
    assert (status, headers["Retry-After"]) == (429, "1")
    assert "try again" in json.loads(body)["error"]


def test_a_token_that_changes_is_read_anew_and_an_empty_file_locks_nobody_out(
    token: Path, caplog: pytest.LogCaptureFixture
) -> None:
    way = bearer_token(token, REFUSAL)
    token.write_text("")
    assert ask(way, f"Bearer {TOKEN}")[0] == 200
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "keeping what was read before" in warning
    token.write_text(f"other-{TOKEN}")
    assert ask(way, f"Bearer {TOKEN}")[0] == 401
    assert ask(way, f"Bearer other-{TOKEN}")[0] == 200


def test_a_token_that_cannot_be_read_or_protects_nothing_is_one_sentence(token: Path) -> None:
    with pytest.raises(InputError, match=r"^token_file '.*nowhere' cannot be read: No such file or directory$"):
        bearer_token(token.with_name("nowhere"), REFUSAL)
    for text in (" \n", "short", "two words that are long enough", "schlüssel" * 3):
        token.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=r"^token_file '.*token' must hold one ASCII word of at least 16"):
            bearer_token(token, REFUSAL)
