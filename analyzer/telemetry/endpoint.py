"""HTTP for telemetry sources: bounded in bytes and in time, tried again, each failure one sentence."""

from __future__ import annotations

import json
import logging
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from pathlib import Path
from ssl import SSLContext, SSLError, create_default_context
from typing import Any
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError, MaxRetryError
from urllib3.response import BaseHTTPResponse

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.telemetry import TelemetryError, TelemetrySource
from epochcast.analyzer.telemetry.settings import Access

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 3.0, 15.0
LONGEST_ANSWER_S = 60.0  # however steadily it drips
MOST_BYTES = 64 * 2**20
PIECE_BYTES = 2**16
# Of an error page, only the beginning is quoted.
MOST_TEXT = 200
# Busy, restarting, or behind a proxy whose backend is: worth another try at once. More patience is the watcher's.
RETRIED = (429, 500, 502, 503, 504)
TRIES, FIRST_PAUSE_S, LONGEST_PAUSE_S = 3, 0.2, 2.0

# A line for each try of each poll: the watcher logs what has failed in the end, and counts it.
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)


class RefusedError(TelemetryError):
    """An answer with a status of failure; ``status`` is that, ``text`` the beginning of its body."""

    def __init__(self, sentence: str, status: int, text: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.text = text


class TooLargeError(TelemetryError):
    """The answer is longer than was allowed."""


class Endpoint:
    """What answers below one address. ``what`` is how sentences call it: ``agent``, ``Prometheus``.

    Attributes:
        clock_offset_s: its clock minus this machine's, to half a second, by the date of its last answer; None before any.
    """

    def __init__(self, what: str, access: Access, headers: Mapping[str, str] | None = None) -> None:
        """Prepare the connections; none is opened yet.

        Raises:
            InputError: a file of the settings cannot be read.
        """
        self._name = f"{what} {access.url}"
        self.clock_offset_s: float | None = None
        self._base = access.url.rstrip("/")
        self._access = access
        self._headers = dict(headers or {})
        retries = urllib3.Retry(
            total=TRIES - 1,
            status_forcelist=RETRIED,
            backoff_factor=FIRST_PAUSE_S,
            backoff_max=LONGEST_PAUSE_S,
            backoff_jitter=FIRST_PAUSE_S,
            allowed_methods=None,  # a POST is a query too long for an address
            raise_on_status=False,
            redirect=0,  # what is let in here is not to be shown to another host
            respect_retry_after_header=False,  # a mistaken header must not hold a poll for a day
        )
        tls: dict[str, Any] = {} if access.ca is None else {"ssl_context": _tls(access.ca)}
        timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S)
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=2, retries=retries, timeout=timeout, **tls)
        try:
            self._authorization()  # a file that cannot be read is a mistake to report at the start
        except OSError as error:
            raise InputError(f"of {access.url}: {str(error.filename)!r} cannot be read ({error.strerror})") from error

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    @contextmanager
    def stream(self, path: str, query: Sequence[tuple[str, str]] = (), *, form: bool = False) -> Iterator[Iterator[bytes]]:
        """Ask, and give the body of the answer in pieces, of which the caller need not take all.

        Args:
            path: below the address.
            query: parameters; names may repeat.
            form: send them as the body of a POST, for a query that is too long for an address.

        Raises:
            RefusedError: a status of failure.
            TelemetryError: no answer, or one that ends early or takes longer than a minute.
        """
        text = urlencode(query)
        url = self._base + path
        try:
            headers = {"User-Agent": "epochcast-analyzer", **self._headers, **self._authorization()}
            if form:
                headers["Content-Type"] = "application/x-www-form-urlencoded"
                response = self._pool.request("POST", url, body=text, headers=headers, preload_content=False)
            else:
                response = self._pool.request("GET", f"{url}?{text}" if text else url, headers=headers, preload_content=False)
        except MaxRetryError as error:
            raise TelemetryError(f"{self._name} does not answer: {_reason(error.reason or error)}") from error
        except HTTPError as error:
            raise TelemetryError(f"{self._name} does not answer: {_reason(error)}") from error
        except OSError as error:
            raise TelemetryError(f"{self._name}: {error.strerror or error} ({error.filename})") from error
        self.clock_offset_s = _offset(response.headers.get("Date"), time.time())
        complete = False
        try:
            if response.status != 200:
                raise self._refusal(path, response)
            yield self._pieces(path, response)
            complete = response.length_remaining == 0
        except HTTPError as error:
            raise TelemetryError(f"{self._name}{path} ended early: {_reason(error)}") from error
        finally:
            if complete:
                response.release_conn()
            else:
                response.close()

    def read(self, path: str, query: Sequence[tuple[str, str]] = (), *, form: bool = False, most: int = MOST_BYTES) -> bytes:
        """Return the body of the answer; as `stream`, and TooLargeError where it has more than ``most`` bytes."""
        taken = bytearray()
        with self.stream(path, query, form=form) as pieces:
            for piece in pieces:
                taken += piece
                if len(taken) > most:
                    raise TooLargeError(f"{self._name}{path} answers with more than {most} bytes")
        return bytes(taken)

    def json(
        self,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        *,
        schema: str | None = None,
        form: bool = False,
        most: int = MOST_BYTES,
    ) -> dict[str, Any]:
        """Return the JSON object that is answered; as `read`, and TelemetryError where it is none or not under ``schema``."""
        body = self.read(path, query, form=form, most=most)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as error:  # not UTF-8, broken off, thousands of brackets
            raise TelemetryError(f"{self._name}{path} does not answer in JSON ({error})") from error
        if not isinstance(answer, dict):
            raise TelemetryError(f"{self._name}{path} answers with a JSON {type(answer).__name__}, not an object")
        if schema is not None and answer.get("schema") != schema:
            raise TelemetryError(
                f"{self._name}{path} answers with schema {answer.get('schema')!r}, not {schema!r}; upgrade one of the two"
            )
        return answer

    def _authorization(self) -> dict[str, str]:
        if self._access.token_file is not None:
            return {"Authorization": f"Bearer {self._access.token_file.read_text(encoding='utf-8').strip()}"}
        if self._access.password_file is not None:
            password = self._access.password_file.read_text(encoding="utf-8").rstrip("\r\n")
            return {"Authorization": "Basic " + b64encode(f"{self._access.user}:{password}".encode()).decode()}
        return {}

    def _pieces(self, path: str, response: BaseHTTPResponse) -> Iterator[bytes]:
        deadline = time.monotonic() + LONGEST_ANSWER_S
        while piece := response.read1(PIECE_BYTES):
            yield piece
            if time.monotonic() > deadline:
                raise TelemetryError(f"{self._name}{path} is still answering after {LONGEST_ANSWER_S:.0f} s")

    def _refusal(self, path: str, response: BaseHTTPResponse) -> RefusedError:
        try:
            text = response.read1(PIECE_BYTES).decode(errors="replace")
        except HTTPError:
            text = ""
        excerpt = " ".join(text.split())[:MOST_TEXT]
        return RefusedError(f"{self._name}{path} answers with status {response.status}: {excerpt}", response.status, text)


class HttpSource(TelemetrySource):
    """A source at one HTTP address."""

    def __init__(self, name: str, interval_s: float, endpoint: Endpoint) -> None:
        self.name = name
        self.interval_s = interval_s
        self._endpoint = endpoint

    @property
    def clock_offset_s(self) -> float | None:
        """See `Endpoint`."""
        return self._endpoint.clock_offset_s

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()


def _offset(date: str | None, now: float) -> float | None:
    """Seconds that the date of an answer, which is in whole seconds, is ahead of ``now`` [unix s]; None without a date."""
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp() + 0.5 - now
    except ValueError:
        return None


def _tls(ca: Path) -> SSLContext:
    try:
        return create_default_context(cafile=str(ca))
    except (OSError, SSLError) as error:
        raise InputError(f"ca {str(ca)!r} is not a readable PEM file of certificates ({error})") from error


def _reason(error: Exception) -> str:
    """The end of urllib3's sentence: what comes before repeats the address, and a second argument repeats the first."""
    return str(error.args[0] if error.args else error).rpartition(": ")[2] or type(error).__name__
