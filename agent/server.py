"""The agent's HTTP server: who may ask is answered, and waits while a sampler reads.

TLS certificates and basic authentication are read again when their files change.
"""

import base64
import hashlib
import hmac
import logging
import os
import re
import secrets
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from wsgiref.types import WSGIApplication

from epochcast.agent.config import Config, Web
from epochcast.agent.ticks_first import ticks_first
from epochcast.common.authentication import Authentication, Reloaded
from epochcast.common.errors import InputError
from epochcast.common.http_server import Limits, Server
from epochcast.common.settings_file import is_local
from epochcast.extras import how_to_install

log = logging.getLogger(__name__)

# Refused passwords that are remembered: a scraper with a wrong one must not cost a bcrypt check (0.1 s of CPU) per second.
REMEMBERED_REFUSALS = 256
# A check that cannot start within this long (others are waiting too) is put off: guessing passwords must not fill the server.
LONGEST_WAIT_S = 1.0
# bcrypt takes no more of a password; htpasswd cuts there too.
LONGEST_PASSWORD = 72
HASH = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
# One more doubles the time of a check: 14 is about a second.
HIGHEST_COST = 14


def listen(config: Config, app: WSGIApplication) -> Server:
    """Return a server of ``app``, bound but not yet serving; raises InputError where it cannot listen as the settings say."""
    web = config.web
    certificates = tls(web)
    server = Server(
        config.host,
        config.port,
        app,
        name="epochcast-agent",
        # An answer may be all samples of eight GPUs, on a slow line.
        limits=Limits(web.connections, waiting=256, request_s=10.0, answer_s=120.0, silence_s=120.0),
        hosts=config.hosts,
        authentication=None if web.users is None else basic_authentication(web.users),
        tls=None if certificates is None else certificates.get,
        before_answer=ticks_first.wait,
        # Tools that restart or drain a node have no password, and these paths reveal only whether samples flow.
        health=frozenset({"/healthz", "/readyz"}),
    )
    _warn_of_strangers(config, server.server_port)
    return server


def _warn_of_strangers(config: Config, port: int) -> None:
    """Log who else may read this node's telemetry, or passwords on their way, where it listens beyond this machine."""
    web = config.web
    if is_local(config.host):
        return
    if web.users is None and web.client_ca is None:
        log.warning(
            "anyone who can reach %s port %d can read this node's telemetry; set web.users or web.client_ca, "
            "or listen on 127.0.0.1",
            config.host,
            port,
        )
    elif web.certificate is None:
        log.warning("passwords and telemetry go to %s unencrypted; set web.certificate and web.key", config.host)


def tls(web: Web) -> Reloaded[ssl.SSLContext] | None:
    """Return the TLS settings of connections, None for plain HTTP; raises InputError for files that cannot be used."""
    if web.certificate is None or web.key is None:
        return None
    files = [path for path in (web.certificate, web.key, web.client_ca) if path is not None]
    return Reloaded(lambda: _context(web), files)


def _context(web: Web) -> ssl.SSLContext:
    assert web.certificate is not None and web.key is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    for path, what in ((web.certificate, "certificate"), (web.key, "key"), (web.client_ca, "client_ca")):
        if path is not None:
            _readable(path, f"web.{what}")
    try:
        # Without a password OpenSSL would ask the terminal for that of an encrypted key.
        context.load_cert_chain(web.certificate, web.key, password="")
    except (OSError, ValueError) as error:
        raise InputError(
            f"web.certificate {web.certificate} and web.key {web.key} cannot be used ({error}); "
            "give PEM files that belong together, the key without a passphrase"
        ) from error
    if web.client_ca is not None:
        try:
            context.load_verify_locations(web.client_ca)
        except (OSError, ValueError) as error:
            raise InputError(f"web.client_ca {web.client_ca} cannot be used ({error}); give PEM certificates") from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _readable(path: Path, setting: str) -> None:
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(
            f"cannot read {setting} {path}: {error.strerror}; give a file that the agent's user (id {os.geteuid()}) can read"
        ) from error


class Users:
    """The users of one reading of the file, and what is known of passwords so far.

    ``hashes``: bcrypt hash by name. A password that was checked once is recognised by a digest under a key of this process: a
    scrape a second costs no bcrypt check a second.
    """

    def __init__(self, hashes: Mapping[str, bytes]) -> None:
        self._hashes = hashes
        self._check: Callable[[bytes, bytes], bool] = _bcrypt().checkpw
        self._key = secrets.token_bytes(32)
        self._verified: dict[str, bytes] = {}
        self._refused: dict[bytes, None] = {}
        # One check at a time: guessing passwords takes at most one core, not the training's.
        self._checking = threading.Lock()

    def admit(self, name: str, password: bytes) -> bool | None:
        """Return whether this is the password of that user, None when too many are being checked at once."""
        digest = hashlib.blake2b(name.encode() + b"\0" + password, key=self._key).digest()
        if (known := self._known(name, digest)) is not None:
            return known
        if not self._checking.acquire(timeout=LONGEST_WAIT_S):
            return None
        try:
            if (known := self._known(name, digest)) is not None:
                return known
            # An unknown name takes as long as a known one, so that names cannot be found out by the clock.
            stored = self._hashes.get(name, next(iter(self._hashes.values())))
            try:
                right = self._check(password[:LONGEST_PASSWORD], stored) and name in self._hashes
            except ValueError:  # a NUL byte, which no stored password has
                right = False
            if right:
                self._verified[name] = digest
            else:
                self._refused[digest] = None
                if len(self._refused) > REMEMBERED_REFUSALS:
                    del self._refused[next(iter(self._refused))]
            return right
        finally:
            self._checking.release()

    def _known(self, name: str, digest: bytes) -> bool | None:
        if hmac.compare_digest(self._verified.get(name, b""), digest):
            return True
        return False if digest in self._refused else None


def basic_authentication(file: Path) -> Authentication:
    """Ask for a user name of a file and its password; raises InputError for a file that cannot be used."""
    users = Reloaded(lambda: Users(read_users(file)), [file])

    def admits(scheme: str, credentials: str) -> bool | None:
        try:
            sent, colon, password = base64.b64decode(credentials, validate=True).partition(b":")
            name = sent.decode()
        except ValueError:  # not base64, or a name that is not UTF-8
            return False
        return scheme == "basic" and bool(colon) and users.get().admit(name, password)

    challenge = 'Basic realm="epochcast-agent", charset="UTF-8"'
    sentence = "this agent requires a user name and password"
    return Authentication(admits, challenge, sentence)


def read_users(path: Path) -> dict[str, bytes]:
    """Return the bcrypt hash of each user of a file of ``name:hash`` lines (empty ones and ``#`` comments are skipped).

    Raises InputError, which never repeats the contents of the file.
    """
    _readable(path, "web.users")
    try:
        lines: Sequence[str] = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"web.users {path} is not text in UTF-8; make it with htpasswd -B") from error
    hashes: dict[str, bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, stored = line.strip().partition(":")
        match = HASH.fullmatch(stored)
        if not name or match is None:
            raise InputError(f"web.users {path} line {number} is not name:bcrypt-hash; make it with htpasswd -B")
        if not 4 <= int(match[1]) <= HIGHEST_COST:
            raise InputError(
                f"web.users {path} line {number} has bcrypt cost {int(match[1])}; use 4 to {HIGHEST_COST} (htpasswd -B -C 10)"
            )
        if name in hashes:
            raise InputError(f"web.users {path} line {number} names a user a second time; drop one")
        hashes[name] = stored.encode()
    if not hashes:
        raise InputError(f"web.users {path} names no user, so nobody could log in; add a user with htpasswd -B")
    return hashes


def _bcrypt() -> ModuleType:
    try:
        return import_module("bcrypt")
    except ImportError as error:
        raise InputError(f"web.users needs the package bcrypt; {how_to_install('agent-auth')}") from error
