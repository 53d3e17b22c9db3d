"""Who may ask: no other site's page, and clients that send the token, as a bearer or, so that a browser can, as a password."""

from __future__ import annotations

import base64
import binascii
import hmac
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.problems import problem
from epochcast.analyzer.service.request_metrics import RequestMetrics
from epochcast.common.authentication import wrong_site

OPEN = frozenset({"/healthz", "/readyz"})
"""Answered without a token: a monitor of the process need not know it, and they reveal nothing else."""

_CHALLENGES = (b'Bearer realm="epochcast"', b'Basic realm="epochcast", charset="UTF-8"')

_SHORTEST = 16  # characters: a shorter one can be guessed


def read_token(path: Path) -> str:
    """Return the token in a file, without the space around it.

    Raises:
        InputError: the file cannot be read, or holds no token that can be sent.
    """
    try:
        token = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise InputError(f"cannot read the token file {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputError(f"the token file {path} is not ASCII; make one with: openssl rand -hex 32") from None
    if len(token) < _SHORTEST or len(token.split()) != 1:
        raise InputError(
            f"the token file {path} must hold one word of at least {_SHORTEST} characters; make one with: openssl rand -hex 32"
        )
    return token


class Auth:
    """Middleware that refuses other sites' pages (421, 403) and requests without the token (401), if there is one."""

    def __init__(self, app: ASGIApp, token: str | None, settings: Settings, metrics: RequestMetrics) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._settings = settings
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        refused = None if scope["type"] != "http" or scope["path"] in OPEN else self._refusal(scope)
        await (refused or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        asked = (scope["method"], headers.get("host"), headers.get("origin"))
        if wrong := wrong_site(self._settings.host, self._settings.hosts, *asked):
            self._metrics.refused("site")
            return problem(*wrong, scope["path"])
        sent = headers.get("authorization", "")
        if self._token is None or hmac.compare_digest(_token_in(sent.encode("latin-1")), self._token):
            return None
        self._metrics.refused("unauthorized")
        why = "the token is wrong" if sent else "this service requires a token"
        response = problem(
            401, f"{why}; send the service's token as 'Authorization: Bearer TOKEN', or as the password", scope["path"]
        )
        response.raw_headers.extend((b"www-authenticate", challenge) for challenge in _CHALLENGES)
        return response


def _token_in(header: bytes) -> bytes:
    scheme, _, rest = header.partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return b""
    return b""
