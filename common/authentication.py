"""Who may ask: one door for every way to authenticate, the way of a bearer token, and files that are read again."""

from __future__ import annotations

import binascii
import hmac
import logging
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Generic, TypeVar
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from epochcast.common.errors import InputError
from epochcast.common.routes import METHODS, Answer, refusal
from epochcast.common.settings_file import host_name, is_address, is_local

log = logging.getLogger(__name__)

T = TypeVar("T")

# Seconds between two looks at whether a file changed.
LOOK_INTERVAL_S = 1.0


@dataclass(frozen=True)
class Authentication:
    """Decides who has access, and how others are refused.

    ``admits``: whether scheme (in lower case) and credentials of a header ``Authorization`` come from somebody who may ask;
    None when too many are being checked at once. ``challenge``: what a refusal says in ``WWW-Authenticate``;
    ``sentence``: what it says in words.
    """

    admits: Callable[[str, str], bool | None]
    challenge: str
    sentence: str

    def refusal(self, authorization: str) -> Answer | None:
        """Return what to answer to who sends this header and may not ask, None to who may."""
        scheme, _, credentials = authorization.partition(" ")
        admitted = self.admits(scheme.lower(), credentials.strip())
        if admitted is None:
            said = "too many passwords are being checked; try again in a second"
            return refusal(HTTPStatus.TOO_MANY_REQUESTS, said, ("Retry-After", "1"))
        return None if admitted else refusal(HTTPStatus.UNAUTHORIZED, self.sentence, ("WWW-Authenticate", self.challenge))


def guarded(app: WSGIApplication, address: str, hosts: Sequence[str], authentication: Authentication | None) -> WSGIApplication:
    """Return ``app`` behind a door: who may not ask learns nothing else, not even which paths there are."""

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        asked = (environ["REQUEST_METHOD"], environ.get("HTTP_HOST"), environ.get("HTTP_ORIGIN"))
        refused = None
        if wrong := wrong_site(address, hosts, *asked):
            refused = refusal(*wrong)
        elif authentication is not None:
            refused = authentication.refusal(environ.get("HTTP_AUTHORIZATION", ""))
        return refused.give(environ, start_response) if refused else app(environ, start_response)

    return answer


def wrong_site(
    address: str, hosts: Sequence[str], method: str, host: str | None, origin: str | None
) -> tuple[HTTPStatus, str] | None:
    """Return why a request to a server at ``address`` may come from another site's page in a browser, None where it does not.

    With DNS rebinding the site gives its own name (``host``) our address. An address is nobody's name; beyond a loopback
    address, names are the operator's. ``hosts``: the setting. Programs send no ``origin``.
    """
    name = host_name(host or "")
    if host and not (is_address(name) or name in ("localhost", *hosts) or not (hosts or is_local(address))):
        said = f"this server has no name {host!r:.100}; if it should, add it to the setting hosts"
        return HTTPStatus.MISDIRECTED_REQUEST, said
    site = (origin or "").partition("://")[2]
    if origin and method not in METHODS.split(", ") and site != host and host_name(site) not in hosts:
        said = f"pages of {origin!r:.100} may only read here; if they may write, add their host to the setting hosts"
        return HTTPStatus.FORBIDDEN, said
    return None


def bearer_token(file: Path, sentence: str) -> Authentication:
    """Ask for the token in a file, as a bearer or, so that a browser can send it, as the password of any user.

    Raises:
        InputError: a file that cannot be used.
    """
    token = Reloaded(lambda: _token(file), [file])

    def admits(scheme: str, credentials: str) -> bool:
        sent = credentials.encode("utf-8", "replace")
        if scheme == "basic":
            try:
                sent = b64decode(sent, validate=True).partition(b":")[2]
            except binascii.Error:
                return False
        return hmac.compare_digest(sent, token.get()) and scheme in ("bearer", "basic")

    return Authentication(admits, 'Bearer realm="epochcast", Basic realm="epochcast", charset="UTF-8"', sentence)


_SHORTEST = 16  # characters: a shorter one can be guessed


def _token(file: Path) -> bytes:
    try:
        token = file.read_bytes().strip()
    except OSError as error:
        raise InputError(f"token_file {str(file)!r} cannot be read: {error.strerror}") from error
    if len(token) < _SHORTEST or len(token.split()) != 1 or not token.isascii():
        what = f"one ASCII word of at least {_SHORTEST} characters"
        raise InputError(f"token_file {str(file)!r} must hold {what}; make one with: openssl rand -hex 32")
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
