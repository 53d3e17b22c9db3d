"""Sends the backlog, oldest batch first: retries what may succeed later, counts and leaves what the store refuses."""

from __future__ import annotations

import logging
import math
import random
import ssl
import threading
import time
from base64 import b64encode
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from epochcast.agent.config import Push
from epochcast.agent.push.backlog import Backlog, Batch
from epochcast.common.errors import InputError

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
# A store may ask for more than our longest pause, but a mistaken header must not silence a node for a day.
LONGEST_RETRY_AFTER_S = 300.0
CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0
LOG_INTERVAL_S = 60.0
# Of an error page, only the first line goes to the log.
MOST_ANSWER_BYTES = 1000


class NotTakenError(Exception):
    """The store did not take a batch now but may later; ``retry_after``: seconds that it asked to be left alone."""

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Sender:
    """Sends batches until the backlog is closed and empty; `run` is a thread's work.

    Everything public is a figure, written by that thread alone: ``sent`` and ``rejected`` samples, ``requests`` by HTTP status
    (``error`` where no answer came), ``retries``, ``last_success`` (unix seconds, None before the first).
    Raises InputError for settings that cannot be used, ImportError where a library is missing.
    """

    def __init__(self, push: Push, backlog: Backlog) -> None:
        import urllib3

        address = urlsplit(push.url)
        if address.username is not None:
            raise InputError("push.url holds a user name; give push.user and push.password_file instead")
        self.sent = 0
        self.rejected = 0
        self.requests = Counter[str]()
        self.retries = 0
        self.last_success: float | None = None
        self._push = push
        self._backlog = backlog
        self._stopping = threading.Event()
        # One connection, kept open. In messages the host alone: a query may hold a secret.
        self._host = address.netloc
        self._agent = f"epochcast-agent/{version('epochcast')}"
        self._path = urllib3.util.parse_url(push.url).request_uri
        timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=ANSWER_TIMEOUT_S)
        tls = {"ssl_context": _tls(push.ca)} if address.scheme == "https" else {}
        self._pool = urllib3.connection_from_url(push.url, timeout=timeout, retries=False, **tls)
        self._logged_at: dict[str, float] = {}
        self._headers()  # a file that cannot be read is a mistake to report at the start

    def take_over(self, old: Sender) -> None:
        """Go on counting where another sender has ended."""
        self.sent, self.rejected, self.retries, self.last_success = old.sent, old.rejected, old.retries, old.last_success
        self.requests = old.requests.copy()

    def run(self) -> None:
        """Send; returns when the backlog is closed and empty, or when a batch fails after `hurry`."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                if not self._send_oldest():
                    return
                pause = FIRST_PAUSE_S
            except NotTakenError as error:
                if self._stopping.is_set():
                    log.warning("remote write to %s: %s; not retried at shutdown", self._host, error)
                    return
                self.retries += 1
                self._log("accepted nothing (%s); %d samples are waiting", error, self._backlog.samples)
                # The random part matters: when the store comes back, a thousand nodes must not knock at once.
                self._stopping.wait(max(error.retry_after, random.uniform(FIRST_PAUSE_S, pause)))
                pause = min(2 * pause, LONGEST_PAUSE_S)

    def hurry(self) -> None:
        """End the present pause, and give up at the next failure."""
        self._stopping.set()

    def _send_oldest(self) -> bool:
        """Send the batch that is oldest now, which after a pause need not be the one that failed; false at the end."""
        batch = self._backlog.take()
        if batch is None:
            return False
        try:
            self._send(batch)
        except NotTakenError:
            self._backlog.give_back(batch)
            raise
        self._backlog.settle(batch)
        return True

    def _send(self, batch: Batch) -> None:
        from urllib3.exceptions import HTTPError, InvalidHeader
        from urllib3.util import Retry

        try:
            answer = self._pool.request(
                "POST", self._path, body=batch.body, headers=self._headers(), redirect=False, preload_content=False
            )
            text = answer.read(MOST_ANSWER_BYTES, decode_content=True)
            # Read to its end, a connection can be used again; one that has more to say is not worth waiting for.
            if answer.length_remaining != 0:
                answer.close()
            answer.release_conn()
        except (HTTPError, OSError, ValueError) as error:  # ValueError: a secret that cannot be read or sent
            self.requests["error"] += 1
            raise NotTakenError(str(error)) from error
        self.requests[str(answer.status)] += 1
        if 200 <= answer.status < 300:
            self.sent += batch.samples
            self.last_success = time.time()
            return
        line = "".join(filter(str.isprintable, text.decode(errors="replace").strip().partition("\n")[0])) or answer.reason
        reason = f"HTTP {answer.status}: {line}"
        if answer.status == 429 or answer.status >= 500:
            try:
                retry_after = Retry().get_retry_after(answer) or 0.0
            except InvalidHeader:
                retry_after = 0.0
            raise NotTakenError(reason, min(retry_after, LONGEST_RETRY_AFTER_S))
        self.rejected += batch.samples
        self._log("rejected %d samples (%s); they are not sent again", batch.samples, reason)

    def _headers(self) -> dict[str, str]:
        """Return the headers of one request; secrets are read again each time, for they are rotated."""
        headers = {
            "Content-Encoding": "snappy",
            "Content-Type": "application/x-protobuf",
            "User-Agent": self._agent,
            "X-Prometheus-Remote-Write-Version": "0.1.0",
        }
        if self._push.password_file is not None:
            user = f"{self._push.user}:{_secret('push.password_file', self._push.password_file)}"
            headers["Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
        if self._push.token_file is not None:
            headers["Authorization"] = f"Bearer {_secret('push.token_file', self._push.token_file)}"
        return headers

    def _log(self, message: str, *arguments: object) -> None:
        """Warn, of each kind of trouble once a minute."""
        now = time.monotonic()
        if now - self._logged_at.get(message, -math.inf) >= LOG_INTERVAL_S:
            self._logged_at[message] = now
            log.warning("remote write: %s " + message, self._host, *arguments)


def _tls(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # an SSLError is one too
        raise InputError(f"push.ca is {ca}, which holds no certificates ({error.strerror}); give a PEM file") from error


def _secret(setting: str, path: Path) -> str:
    """Return the content of a file without the line end; raise InputError, which never holds the content."""
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise InputError(f"{setting} is {path}, which cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{setting} is {path}, which is not UTF-8 text") from error
    # Checked here, because http.client would put a header that it refuses, secret and all, into its message.
    if not secret or not secret.isprintable():
        raise InputError(f"{setting} is {path}, which must hold one line of text and nothing else")
    return secret
