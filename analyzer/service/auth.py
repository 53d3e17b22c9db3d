"""Who may ask: clients that send the token, as a bearer or, so that a browser can, as the password of any user."""

from __future__ import annotations

import base64
import binascii
import hmac
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.service.problems import problem
from epochcast.analyzer.service.request_metrics import RequestMetrics

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
    """Middleware that answers 401 to requests without the token; ``token`` None lets all pass."""

    def __init__(self, app: ASGIApp, token: str | None, metrics: RequestMetrics) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http" or self._token is None or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        sent = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        if hmac.compare_digest(_token_in(sent), self._token):
            await self._app(scope, receive, send)
            return
        self._metrics.refused("unauthorized")
        why = "the token is wrong" if sent else "this service requires a token"
        response = problem(
            401, f"{why}; send the service's token as 'Authorization: Bearer TOKEN', or as the password", scope["path"]
        )
        response.raw_headers.extend((b"www-authenticate", challenge) for challenge in _CHALLENGES)
        await response(scope, receive, send)


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
