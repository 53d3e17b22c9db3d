"""Who may ask: one door for every way to authenticate, the way of a bearer token, and files that are read anew."""

from __future__ import annotations

import hmac
import logging
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from pathlib import Path
from typing import Generic, Protocol, TypeVar
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from .errors import InputError
from .routes import refusal

log = logging.getLogger(__name__)

T = TypeVar("T")

# Seconds between two looks at whether a file changed.
LOOK_INTERVAL_S = 1.0


class Authentication(Protocol):
    """A way to tell who may ask.

    ``open_paths``: what anybody may ask, as a watchdog does. ``challenge``: what a refusal says in ``WWW-Authenticate``;
    ``refusal``: its sentence.
    """

    open_paths: frozenset[str]
    challenge: str
    refusal: str

    def admits(self, scheme: str, credentials: str) -> bool | None:
        """Whether these come from somebody who may ask; None when too many are being checked to tell now.

        ``scheme``: the first word of the header ``Authorization``, in lower case; ``credentials``: the rest.
        """
        ...


def guarded(app: WSGIApplication, authentication: Authentication) -> WSGIApplication:
    """Return ``app`` behind a door: who may not ask gets 401 and learns nothing else, not even which paths there are."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        scheme, _, credentials = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        if environ.get("PATH_INFO") in authentication.open_paths:
            return app(environ, start_response)
        admitted = authentication.admits(scheme.lower(), credentials.strip())
        if admitted:
            return app(environ, start_response)
        if admitted is None:
            said = "too many passwords are being checked; try again in a second"
            refused = refusal(HTTPStatus.TOO_MANY_REQUESTS, said, ("Retry-After", "1"))
        else:
            refused = refusal(HTTPStatus.UNAUTHORIZED, authentication.refusal, ("WWW-Authenticate", authentication.challenge))
        return refused.give(environ, start_response)

    return answer


class BearerToken:
    """Asks for the token in a file. Raises InputError for a file that cannot be used."""

    challenge = "Bearer"

    def __init__(self, file: Path, open_paths: frozenset[str], refusal: str) -> None:
        self.open_paths = open_paths
        self.refusal = refusal
        self._token = Reloaded(lambda: _token(file), [file])

    def admits(self, scheme: str, credentials: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(credentials.encode("utf-8", "replace"), self._token.get()) and scheme == "bearer"


def _token(file: Path) -> bytes:
    try:
        token = file.read_bytes().strip()
    except OSError as error:
        raise InputError(f"token_file {str(file)!r} cannot be read: {error.strerror}") from error
    if not token:
        raise InputError(f"token_file {str(file)!r} is empty; write a long random text into it, or leave the setting out")
    return token


class Reloaded(Generic[T]):
    """What ``load`` makes of files, made anew when one of them changed; the old one stays while the new files are wrong."""

    def __init__(self, load: Callable[[], T], files: Iterable[Path]) -> None:
        self._load = load
        self._files = tuple(files)
        self._state = self._look()
        self._value = load()
        self._looked = time.monotonic()
        self._lock = threading.Lock()

    def get(self) -> T:
        """Return the present value."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked >= LOOK_INTERVAL_S:
                self._looked = now
                state = self._look()
                if state != self._state:
                    self._state = state
                    self._reload()
            return self._value

    def _reload(self) -> None:
        try:
            self._value = self._load()
        except InputError as problem:
            # Certificate and key are rarely replaced in one go: the second one's change leads here again.
            log.warning("going on with what was read before: %s", problem)
        else:
            log.info("read %s anew", ", ".join(map(str, self._files)))

    def _look(self) -> list[object]:
        return [_state(path) for path in self._files]


def _state(path: Path) -> object:
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_ino, found.st_size
