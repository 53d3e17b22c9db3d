"""Settings that cannot be used."""

import sys
from pathlib import Path
from typing import Any

import pytest

from epochcast.agent.config import Push
from epochcast.agent.push import Pusher
from epochcast.common.errors import InputError


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"labels": {"uuid": "x"}}, "push.labels sets 'uuid'"),
        ({"url": "http://me:secret@store/write"}, "push.url holds a user name"),
        ({"token_file": Path("/nowhere/token")}, "push.token_file is /nowhere/token, which cannot be read"),
        ({"user": "me", "password_file": Path("/nowhere/pw")}, "push.password_file is /nowhere/pw"),
        ({"token_file": Path("/dev/null")}, "push.token_file is /dev/null, which must hold one line"),
        ({"url": "https://store/write", "ca": Path("/nowhere/ca.pem")}, "push.ca is /nowhere/ca.pem"),
        ({"url": "https://store/write", "ca": Path("/dev/null")}, "push.ca is /dev/null"),
    ],
)
def test_settings_that_cannot_be_used_are_told_at_once(node: Any, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        Pusher(node, Push(**{"url": "http://store/write", **settings}))
    assert str(caught.value).startswith(words)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("module", ["cramjam", "google.protobuf.descriptor_pb2", "urllib3"])
def test_a_missing_library_names_the_extra(node: Any, monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"{module} is not installed; .*'\.\[agent-push\]'"):
        Pusher(node, Push(url="http://store/write"))
