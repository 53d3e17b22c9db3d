"""TLS, passwords and tokens."""

import ssl
from pathlib import Path
from typing import Any

import pytest

from epochcast.agent.push import Pusher


def test_tls_is_verified_and_basic_authentication_sent(
    receive: Any, make_certificate: Any, tmp_path: Path, node: Any, figures: Any
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate("right"))
    receiver = receive(context)
    make_certificate("wrong")
    (tmp_path / "password").write_text("pä:ss\n")
    node.add_store("power", ticks=5)
    settings = {"user": "me", "password_file": tmp_path / "password"}
    for ca in (tmp_path / "wrong.pem", None):
        pusher = receiver.push_all(node, **settings, ca=ca)
        assert figures(pusher)["requests_total error"] >= 1
        assert receiver.headers == []
    receiver.push_all(node, **settings, ca=tmp_path / "right.pem")
    assert receiver.samples == 6
    assert receiver.headers[0]["authorization"] == "Basic bWU6cMOkOnNz"


def test_a_rotated_token_is_used_and_a_missing_one_waited_for(receiver: Any, tmp_path: Path, node: Any, until: Any) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    store = node.add_store("power", ticks=5)
    pusher = receiver.pusher(node, token_file=token)
    until(lambda: receiver.samples == 5)
    token.unlink()
    store.add_ticks(5, 5)
    until(lambda: pusher.sender.requests["error"])
    token.write_text("second")
    until(lambda: receiver.samples == 10)
    pusher.stop()
    assert receiver.headers[0]["authorization"] == "Bearer first"
    assert receiver.headers[1]["authorization"] == "Bearer second"


def test_a_secret_that_no_header_can_hold_stays_out_of_the_log(
    receiver: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, node: Any, figures: Any
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    node.add_store("power", ticks=5)
    pusher = Pusher(node, receiver.settings(token_file=token))
    token.write_text("s3cr\n3t")
    pusher.start()
    pusher.stop()
    assert figures(pusher)["requests_total error"] == 1
    assert pusher.backlog.samples == 6
    assert "must hold one line" in caplog.text
    assert "3t" not in caplog.text
