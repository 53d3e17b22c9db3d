"""The HTTP server: a bounded number of threads around a WSGI application, none of which a client can keep for good."""

from __future__ import annotations

import contextlib
import errno
import logging
import math
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from socketserver import TCPServer
from typing import IO, Any, cast
from wsgiref.headers import Headers
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer
from wsgiref.types import WSGIApplication, WSGIEnvironment

from .authentication import Authentication
from .errors import InputError

log = logging.getLogger(__name__)

LONGEST_GOODBYE_S = 0.5
# Bytes of a request's first line.
LONGEST_LINE = 1 << 16
# Bytes of a request's body that are read and thrown away: closing on unread bytes would cost the client its answer.
LONGEST_BODY = 1 << 16
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
NOT_TLS = b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis port speaks HTTPS only.\n"


@dataclass(frozen=True)
class Limits:
    """What clients may take.

    ``connections``: requests that are answered at once, each by a thread. ``waiting``: connections that may wait for a thread;
    the next one gets 503. ``request_s``: seconds for a connection's request (handshake and headers), however slowly
    they drip; waiting for a thread does not count. ``answer_s``: seconds for its answer, however slowly it is taken.
    ``silence_s``: seconds in which not one byte is taken.
    """

    connections: int
    waiting: int
    request_s: float
    answer_s: float
    silence_s: float


class Server(WSGIServer):
    """``serve_forever`` accepts; ``limits.connections`` threads shake hands, read, ask the application and write."""

    request_queue_size = 128

    def __init__(
        self,
        host: str,
        port: int,
        app: WSGIApplication,
        *,
        name: str,
        limits: Limits,
        authentication: Authentication | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
        before_answer: Callable[[], None] = lambda: None,
    ) -> None:
        """Bind, without serving yet; raises InputError where nobody can listen at ``host`` and ``port``.

        ``name``: what it calls itself in each answer. ``authentication``: None answers anybody. ``tls``: what is now to be used
        of certificates; None speaks plain HTTP. ``before_answer``: called by a thread that has read a request's first line, and
        before it does more; it may wait.
        """
        self.name = name
        self.limits = limits
        self.before_answer = before_answer
        self._tls = tls
        self._authentication = authentication
        self.set_app(app)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._pool = ThreadPoolExecutor(limits.connections, thread_name_prefix="http")
        self._places = threading.BoundedSemaphore(limits.connections + limits.waiting)
        # When each open connection has to have got on, by the monotonic clock; infinity while it waits for a thread.
        self._deadlines: dict[socket.socket, float] = {}
        self._looked = time.monotonic()
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                remedy = "is in use; choose another with --port, 0 takes a free one"
            else:
                remedy = f"cannot be listened on ({error.strerror or error}); choose others with --host and --port"
            raise InputError(f"port {port} of {host} {remedy}") from error

    def set_app(self, application: WSGIApplication | None) -> None:
        """Answer with this application from the next request on, to those who may ask."""
        if application is not None and self._authentication is not None:
            application = self._authentication.guard(application)
        super().set_app(application)

    def server_bind(self) -> None:
        """Bind, without asking DNS for the machine's name as `HTTPServer` does: that can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                # The connection stays in the queue: without a pause the loop would spin on it.
                log.warning("cannot accept connections: %s", error.strerror)
                time.sleep(0.1)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to the threads, or turn it away when too many wait already."""
        if not self._places.acquire(blocking=False):
            self._turn_away(request)
            return
        self._deadlines[request] = math.inf
        try:
            self._pool.submit(self._serve, request, client_address)
        except RuntimeError:  # the server is being closed
            self._end(request)

    def service_actions(self) -> None:
        """Cut off the connections whose time is over; called between two connections and twice a second."""
        now = time.monotonic()
        if now - self._looked < 0.5:
            return
        self._looked = now
        for connection, deadline in list(self._deadlines.items()):
            if now > deadline:
                log.debug("a client took too long")
                _cut(connection)

    def request_was_read(self, connection: socket.socket) -> None:
        """Give the answer its own time."""
        self._deadlines[connection] = time.monotonic() + self.limits.answer_s

    def server_close(self) -> None:
        """Stop listening and cut off what is still open."""
        super().server_close()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for connection in list(self._deadlines):
            _cut(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note a connection that was reset, cut off or never spoke HTTP (port scans, probes) without a traceback."""
        error = sys.exception()
        if isinstance(error, OSError):
            log.debug("connection from %s: %s", client_address, error)
        else:
            log.error("connection from %s", client_address, exc_info=error)

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        connection = request
        try:
            self._deadlines[connection] = time.monotonic() + self.limits.request_s
            # The deadlines cut off what hangs; this is for a connection that dies without a word while it is read or written.
            connection.settimeout(self.limits.silence_s)
            if self._tls is not None:
                connection = self._wrapped(request, self._tls())
                _shake_hands(connection)
            self.finish_request(connection, client_address)
            if isinstance(connection, ssl.SSLSocket):
                _say_goodbye(connection)
        except Exception:
            self.handle_error(connection, client_address)
        finally:
            self._end(connection)

    def _wrapped(self, request: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        # Wrapping moves the connection into another object.
        connection = context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        self._deadlines[connection] = self._deadlines.pop(request)
        return connection

    def _turn_away(self, connection: socket.socket) -> None:
        if self._tls is None:
            with contextlib.suppress(OSError):
                connection.setblocking(False)
                connection.send(BUSY)
                # Closing on unread bytes would take the answer back.
                connection.recv(LONGEST_BODY)
        self.shutdown_request(connection)

    def _end(self, connection: socket.socket) -> None:
        self.shutdown_request(connection)
        self._deadlines.pop(connection, None)
        self._places.release()


def _shake_hands(connection: ssl.SSLSocket) -> None:
    try:
        connection.do_handshake()
    except ssl.SSLError as error:
        if error.reason == "HTTP_REQUEST":
            with contextlib.suppress(OSError):
                socket.socket.send(connection, NOT_TLS)
                # Closing on unread bytes would take the answer back.
                socket.socket.recv(connection, LONGEST_BODY, socket.MSG_DONTWAIT)
        raise


def _say_goodbye(connection: ssl.SSLSocket) -> None:
    """Tell the client that the answer is whole: over TLS the end of the connection alone does not."""
    with contextlib.suppress(OSError, ValueError):
        connection.settimeout(LONGEST_GOODBYE_S)
        connection.unwrap()


def _cut(connection: socket.socket) -> None:
    """End a connection that another thread waits on: its waiting ends with an error."""
    with contextlib.suppress(OSError):
        # Of the socket itself: an SSLSocket's own method takes the encryption away from under the other thread.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    """Reads one request and hands it to the application; logged at debug level only."""

    server: Server
    # Head and body are written one after the other; the second would wait 40 ms for the client's delayed acknowledgement.
    disable_nagle_algorithm = True

    def handle(self) -> None:
        """Answer one request."""
        self.raw_requestline = self.rfile.readline(LONGEST_LINE + 1)
        if len(self.raw_requestline) > LONGEST_LINE:
            self.requestline = self.request_version = self.command = ""
            self.send_error(414)
            return
        self.server.before_answer()
        if not self.parse_request():
            return
        length = self.headers.get("Content-Length", "")
        if length.isdecimal():
            self.rfile.read(min(int(length), LONGEST_BODY))
        self.server.request_was_read(self.connection)
        handler = _AnswerHandler(self.rfile, cast(IO[bytes], self.wfile), sys.stderr, self.get_environ(), multithread=True)
        handler.request_handler = self
        handler.server_software = self.server.name
        app = self.server.get_app()
        assert app is not None
        handler.run(app)

    def log_message(self, format: str, *args: object) -> None:
        """Log at debug level."""
        log.debug(format, *args)


class _AnswerHandler(ServerHandler):
    """What goes wrong while answering is logged; a client that went away is no error."""

    environ: WSGIEnvironment
    headers: Headers
    request_handler: WSGIRequestHandler
    http_version = "1.1"
    # An answer of unknown length goes in chunks: its end must differ from a cut.
    _chunked = False

    def cleanup_headers(self) -> None:
        """Say how the answer ends."""
        super().cleanup_headers()
        self.headers["Connection"] = "close"
        unknown = "Content-Length" not in self.headers and self.environ["REQUEST_METHOD"] != "HEAD"
        if unknown and self.environ["SERVER_PROTOCOL"] == "HTTP/1.1":
            self.headers["Transfer-Encoding"] = "chunked"

    def send_headers(self) -> None:
        """Send the head; what follows is the body."""
        super().send_headers()
        self._chunked = "Transfer-Encoding" in self.headers

    def finish_content(self) -> None:
        """End the body."""
        super().finish_content()
        if self._chunked:
            self._chunked = False
            self._write(b"0\r\n\r\n")

    def _write(self, data: bytes) -> None:
        if not self._chunked:
            super()._write(data)
        elif data:  # an empty chunk would be the last one
            super()._write(b"%x\r\n%b\r\n" % (len(data), data))

    def log_exception(self, exc_info: Any) -> None:
        """Log what the application raised."""
        if isinstance(exc_info[1], OSError):
            log.debug("answer to %s: %s", self.environ.get("REMOTE_ADDR"), exc_info[1])
        else:
            log.error("answer to %s", self.environ.get("PATH_INFO"), exc_info=exc_info)
