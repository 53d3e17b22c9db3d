"""Who may ask: no other site's page, and clients that send the token (`common.authentication`)."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.problems import problem
from epochcast.analyzer.service.request_metrics import RequestMetrics
from epochcast.common.authentication import Authentication, wrong_site

OPEN = frozenset({"/healthz", "/readyz"})
"""Answered without a token: a monitor of the process need not know it, and they reveal nothing else."""

REFUSAL = "send the service's token as 'Authorization: Bearer TOKEN', or as the password"


class Auth:
    """Middleware that refuses other sites' pages (421, 403) and requests without the token (401), if there is one."""

    def __init__(
        self, app: ASGIApp, authentication: Authentication | None, settings: Settings, metrics: RequestMetrics
    ) -> None:
        self._app = app
        self._authentication = authentication
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
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        door = self._authentication
        if door is None or door.admits(scheme.lower(), credentials.strip()):
            return None
        self._metrics.refused("unauthorized")
        why = "the token is wrong" if scheme else "this service requires a token"
        return problem(401, f"{why}; {door.sentence}", scope["path"], {"WWW-Authenticate": door.challenge})
