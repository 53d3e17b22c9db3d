"""Which path is answered by what, asked without a network."""

import json
from functools import partial
from http import HTTPStatus
from typing import Any

import pytest

from epochcast.common.errors import InputError
from epochcast.common.routes import Answer, Query, Routes, json_answer, only_known, refusal

from .. import wsgi


def _plain(query: Query, _: Any) -> Answer:
    only_known(query, "a", "b")
    return json_answer(query)


def _streamed(_: Query, __: Any) -> Answer:
    return Answer(HTTPStatus.OK, "text/csv", iter([b"a,b\n", b"1,2\n"]), (("X-Schema", "s"),))


def _wrong(_: Query, __: Any) -> Answer:
    raise InputError("a is 1; give 2")


def _late(_: Query, __: Any) -> Answer:
    return refusal(HTTPStatus.SERVICE_UNAVAILABLE, "ask again", ("Retry-After", "5"))


ask = partial(wsgi.ask, Routes({"/plain": _plain, "/streamed": _streamed, "/wrong": _wrong, "/late": _late}))


def test_an_answer_says_how_long_it_is_and_is_not_to_be_stored() -> None:
    status, headers, body = ask("/plain", "a=1&a=2&b=")
    assert (status, json.loads(body)) == (200, {"a": ["1", "2"], "b": [""]})
    assert (headers["Content-Type"], headers["Cache-Control"]) == ("application/json", "no-store")
    assert int(headers["Content-Length"]) == len(body)


def test_a_streamed_answer_says_no_length() -> None:
    for method, sent in (("GET", b"a,b\n1,2\n"), ("HEAD", b"")):
        status, headers, body = ask("/streamed", method=method)
        assert (status, headers["X-Schema"], body) == (200, "s", sent)
        assert "Content-Length" not in headers


def test_head_is_the_head_of_get() -> None:
    assert ask("/plain", "a=1", "HEAD") == (*ask("/plain", "a=1")[:2], b"")


@pytest.mark.parametrize(
    ("path", "query", "method", "status", "said"),
    [
        ("/no", "", "GET", 404, "no such path '/no'; known: /plain, /streamed, /wrong, /late"),
        ("/plain", "", "POST", 405, "/plain is read with GET, not POST"),
        ("/plain", "c=1", "GET", 400, "unknown parameter 'c'; known: a, b"),
        ("/wrong", "", "GET", 400, "a is 1; give 2"),
        ("/late", "", "GET", 503, "ask again"),
    ],
)
def test_what_is_not_answered_says_why_in_one_sentence(path: str, query: str, method: str, status: int, said: str) -> None:
    code, headers, body = ask(path, query, method)
    assert (code, json.loads(body)) == (status, {"error": said})
    assert headers.get("Allow") == ("GET, HEAD, OPTIONS" if status == 405 else None)
    assert headers.get("Retry-After") == ("5" if status == 503 else None)


def test_options_says_what_may_be_done() -> None:
    status, headers, body = ask("/wrong", method="OPTIONS")
    assert (status, headers["Allow"], body) == (200, "GET, HEAD, OPTIONS", b"")


def test_what_somebody_sends_comes_back_short() -> None:
    for path, query, method in (
        ("/" + "x" * 9999, "", "GET"),
        ("/plain", "x" * 9999 + "=1", "GET"),
        ("/plain", "", "X" * 9999),
    ):
        assert len(ask(path, query, method)[2]) < 400
