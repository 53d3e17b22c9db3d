"""One request's head, and what a WSGI application answers to it, as bytes; no connection is touched here."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler
from wsgiref.types import WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)


class Request(WSGIRequestHandler):
    """A request's head; ``refusal`` is what to answer to one that cannot be read."""

    def __init__(self, head: bytes, address: str, environ: WSGIEnvironment) -> None:
        self.client_address = (address, 0)
        self.server = SimpleNamespace(base_environ=environ)  # type: ignore[assignment]  # all that is used of a server
        self.rfile, self.wfile = io.BytesIO(head), io.BytesIO()
        self.raw_requestline = self.rfile.readline()
        self.refusal = b"" if self.parse_request() else self.wfile.getvalue()
        self.route = "" if self.refusal else self.path.partition("?")[0]
        self.chunks = not self.refusal and self.request_version != "HTTP/1.0"

    def log_message(self, format: str, *args: object) -> None:
        """Log at debug level."""
        log.debug(format, *args)


class BrokenAnswerError(Exception):
    """The application failed while it answered."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class AppAnswer:
    """An answer of the application as the bytes that are sent; all of it is run by threads, one at a time."""

    def __init__(self, app: WSGIApplication, request: Request, name: str, before: Callable[[], None] = lambda: None) -> None:
        self._app = app
        self._request = request
        self._name = name
        self._before = before
        self._body: Iterable[bytes] = ()
        self._pieces: Iterator[bytes] | None = None
        self._head: list[bytes] = []
        self._chunked = False
        self._done = self._sent_head = False
        self._path = request.route
        # A client may go while a thread computes; another closes the answer then.
        self._turn = threading.Lock()

    def next_piece(self) -> bytes | None:
        """Return the next bytes to send, None after the last.

        Raises:
            BrokenAnswerError: the application failed in the middle.
        """
        with self._turn:
            return self._next_piece()

    def _next_piece(self) -> bytes | None:
        if self._done:
            return None
        try:
            if self._pieces is None:
                self._before()
                self._body = self._app(self._environ(), self._start)
                self._pieces = iter(self._body)
            piece = next(self._pieces, None)
            while piece == b"":
                piece = next(self._pieces, None)
        except Exception as error:
            if self._sent_head:
                raise BrokenAnswerError(self._path) from error
            log.error("answer to %s", self._path, exc_info=error)
            self._done = True
            return b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        sent = self._take_head()
        if piece is None:
            self._done = True
            return sent + b"0\r\n\r\n" * self._chunked
        return sent + (b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece)

    def close(self) -> None:
        """Signal to the application that the client takes no more."""
        with self._turn:
            self._done = True
            try:
                getattr(self._body, "close", lambda: None)()
            except Exception as error:
                log.error("end of the answer to %s", self._path, exc_info=error)

    def _environ(self) -> WSGIEnvironment:
        more = {"wsgi.input": io.BytesIO(), "wsgi.errors": sys.stderr, "wsgi.version": (1, 0), "wsgi.url_scheme": "http"}
        flags = {"wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False}
        return {**self._request.get_environ(), **more, **flags}

    def _start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], object]:
        given = {name.lower() for name, _ in headers}
        unknown = "content-length" not in given and self._request.command != "HEAD"
        self._chunked = unknown and self._request.chunks
        lines = [*headers, ("Date", formatdate(usegmt=True)), ("Server", self._name), ("Connection", "close")]
        lines += [("Transfer-Encoding", "chunked")] if self._chunked else []
        text = "".join(f"{name}: {value}\r\n" for name, value in lines)
        self._head = [f"HTTP/1.1 {status}\r\n{text}\r\n".encode("latin-1")]
        return self._head.append

    def _take_head(self) -> bytes:
        head, self._head = b"".join(self._head), []
        self._sent_head = True
        return head
