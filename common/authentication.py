"""Who may ask: one door for every way to authenticate, the way of a bearer token, and files that are read again."""

from __future__ import annotations

import hmac
import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Generic, TypeVar
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from epochcast.common.errors import InputError
from epochcast.common.routes import refusal

log = logging.getLogger(__name__)

T = TypeVar("T")

# Seconds between two looks at whether a file changed.
LOOK_INTERVAL_S = 1.0


@dataclass(frozen=True)
class Authentication:
    """Decides who has access, and how others are refused.

    ``admits``: whether scheme (in lower case) and credentials of a header ``Authorization`` come from somebody who may ask;
    None when too many are being checked at once. ``challenge``: what a refusal says in ``WWW-Authenticate``;
    ``sentence``: what it says in words. ``open_paths``: what anybody may ask, as a watchdog does.
    """

    admits: Callable[[str, str], bool | None]
    challenge: str
    sentence: str
    open_paths: frozenset[str]

    def guard(self, app: WSGIApplication) -> WSGIApplication:
        """Return ``app`` behind a door: who may not ask gets 401 and learns nothing else, not even which paths there are."""

        def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            scheme, _, credentials = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
            admitted = environ.get("PATH_INFO") in self.open_paths or self.admits(scheme.lower(), credentials.strip())
            if admitted:
                return app(environ, start_response)
            if admitted is None:
                said = "too many passwords are being checked; try again in a second"
                refused = refusal(HTTPStatus.TOO_MANY_REQUESTS, said, ("Retry-After", "1"))
            else:
                refused = refusal(HTTPStatus.UNAUTHORIZED, self.sentence, ("WWW-Authenticate", self.challenge))
            return refused.give(environ, start_response)

        return answer


def bearer_token(file: Path, sentence: str, open_paths: frozenset[str]) -> Authentication:
    """Ask for the token in a file; raises InputError for a file that cannot be used."""
    token = Reloaded(lambda: _token(file), [file])

    def admits(scheme: str, credentials: str) -> bool:
        return hmac.compare_digest(credentials.encode("utf-8", "replace"), token.get()) and scheme == "bearer"

    return Authentication(admits, "Bearer", sentence, open_paths)


def _token(file: Path) -> bytes:
    try:
        token = file.read_bytes().strip()
    except OSError as error:
        raise InputError(f"token_file {str(file)!r} cannot be read: {error.strerror}") from error
    if not token:
        raise InputError(f"token_file {str(file)!r} is empty; write a long random text into it, or leave out the setting")
    return token


class Reloaded(Generic[T]):
    """What ``load`` makes of files, made again when one of them changed; the old one stays while the new files are wrong."""

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
            log.warning("keeping what was read before: %s", problem)
        else:
            log.info("reloaded %s", ", ".join(map(str, self._files)))

    def _look(self) -> list[object]:
        return [_state(path) for path in self._files]


def _state(path: Path) -> object:
    try:
        status = path.stat()
    except OSError as error:
        return error.errno
    return status.st_mtime_ns, status.st_ino, status.st_size
