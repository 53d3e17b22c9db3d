"""Basic authentication."""

import base64
import logging
from pathlib import Path
from typing import Any

import pytest

from epochcast.agent import server
from epochcast.agent.config import Config, Web
from epochcast.agent.server import listen
from epochcast.common import authentication
from epochcast.common.errors import InputError


def basic(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the user ada, password "secret"."""
    bcrypt = pytest.importorskip("bcrypt")
    monkeypatch.setattr(authentication, "LOOK_INTERVAL_S", 0.0)
    path = tmp_path / "users"
    path.write_text(f"# who may ask\n\nada:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    return path


HASH = "$2y$05$" + "a" * 53


WRONG = [
    {},
    *(basic("ada", password) for password in ("wrong", "", "sec\0ret", "s" * 100)),
    basic("eve", "secret"),
    *({"Authorization": f"Basic {base64.b64encode(text).decode()}"} for text in (b"no colon", b"\xff:secret")),
    {"Authorization": "Basic !!!"},
    {"Authorization": "Bearer secret"},
]


def test_who_has_no_password_is_asked_for_one(serve: Any, users: Path, fetch: Any) -> None:
    listening = serve(users=users)
    for headers in 2 * WRONG:  # the second time the answer is remembered
        status, answer, body = fetch(listening, "/metrics", headers=headers)
        assert (status, b"hello" in body) == (401, False)
        assert answer["WWW-Authenticate"].startswith("Basic realm=")


def test_who_has_one_is_answered_and_health_needs_none(serve: Any, users: Path, fetch: Any) -> None:
    listening = serve(users=users)
    assert fetch(listening, "/metrics", headers=basic("ada", "secret"))[2] == b"hello /metrics"
    assert fetch(listening, "/healthz")[0] == fetch(listening, "/readyz")[0] == 200
    assert fetch(listening, "/healthz/")[0] == 401


def test_a_password_is_checked_once_right_or_wrong(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = server.Users(server.read_users(users))
    checks = []
    check = known._check
    monkeypatch.setattr(known, "_check", lambda *both: checks.append(both) or check(*both))
    assert [known.admit("ada", b"secret") for _ in range(5)] == [True] * 5
    assert [known.admit("ada", b"wrong") for _ in range(5)] == [False] * 5
    assert [known.admit("eve", b"secret") for _ in range(5)] == [False] * 5
    assert len(checks) == 3
    for number in range(2 * server.REMEMBERED_REFUSALS):
        known._refused[str(number).encode()] = None
    known.admit("ada", b"guess")
    assert known.admit("ada", b"secret")  # nor do guesses make it forget
    assert len(checks) == 4


def test_guesses_that_wait_too_long_are_put_off(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LONGEST_WAIT_S", 0.01)
    known = server.Users(server.read_users(users))
    assert known.admit("ada", b"secret")
    with known._checking:  # another check is going on
        assert known.admit("ada", b"guess") is None
        assert known.admit("ada", b"secret")


def test_a_long_password_is_cut_where_htpasswd_cuts_it(users: Path) -> None:
    import bcrypt

    long = "p" * 100
    users.write_text(f"ada:{bcrypt.hashpw(long[:72].encode(), bcrypt.gensalt(4)).decode()}\n")
    assert server.Users(server.read_users(users)).admit("ada", long.encode())


def test_users_that_change_are_read_anew_and_a_broken_file_locks_nobody_out(
    serve: Any, users: Path, caplog: pytest.LogCaptureFixture, fetch: Any
) -> None:
    import bcrypt

    listening = serve(users=users)
    assert fetch(listening, headers=basic("ada", "secret"))[0] == 200
    users.write_text("nonsense of three words")
    assert fetch(listening, headers=basic("ada", "secret"))[0] == 200
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "line 1 is not name:bcrypt-hash" in warning
    assert "nonsense" not in warning
    users.write_text(f"bob:{bcrypt.hashpw(b'other', bcrypt.gensalt(4)).decode()}\n")
    assert fetch(listening, headers=basic("ada", "secret"))[0] == 401
    assert fetch(listening, headers=basic("bob", "other"))[0] == 200


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "names no user"),
        ("ada:{SHA}nothing", "line 1 is not name:bcrypt-hash"),
        ("# one\nada", "line 2 is not name:bcrypt-hash"),
        (f":{HASH}", "line 1 is not name:bcrypt-hash"),
        (f"ada:{HASH}\nada:{HASH}", "line 2 names a user a second time"),
        (f"ada:{HASH.replace('05', '31')}", "line 1 has bcrypt cost 31; use 4 to 14"),
        ("\udcff", "is not text in UTF-8"),
    ],
)
def test_a_wrong_users_file_is_one_sentence_that_tells_nothing_of_it(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "users"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=sentence) as caught:
        server.read_users(path)
    assert str(path) in str(caught.value)
    assert "ada" not in str(caught.value).replace(str(path), "")
    assert "aaa" not in str(caught.value)


def test_no_users_file_and_no_bcrypt_are_one_sentence(users: Path, monkeypatch: pytest.MonkeyPatch, hello: Any) -> None:
    with pytest.raises(InputError, match=r"cannot read web.users .*nowhere: No such file"):
        listen(Config(port=0, web=Web(users=users.with_name("nowhere"))), hello)

    def missing(_: str) -> None:
        raise ImportError

    monkeypatch.setattr(server, "import_module", missing)
    with pytest.raises(InputError, match=r"web.users needs the package bcrypt; .*'\.\[agent-auth\]\'"):
        listen(Config(port=0, web=Web(users=users)), hello)


@pytest.mark.parametrize(
    ("host", "asks", "says"),
    [("127.0.0.1", False, ""), ("0.0.0.0", False, "anyone who can reach 0.0.0.0"), ("0.0.0.0", True, "unencrypted")],
)
def test_who_else_may_read_is_logged(
    serve: Any, users: Path, caplog: pytest.LogCaptureFixture, host: str, asks: bool, says: str
) -> None:
    serve(host=host, **({"users": users} if asks else {}))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == bool(says) and all(says in warning for warning in warnings)
