"""HTTP for the node analyzer: the standard library's server, with a bounded number of threads and of seconds."""

from __future__ import annotations

import errno
import logging
import socket
import sys
import threading
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.headers import Headers
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer
from wsgiref.types import WSGIApplication, WSGIEnvironment

from ..errors import InputError

log = logging.getLogger(__name__)

MOST_CONNECTIONS = 32
LONGEST_REQUEST_S = 10.0  # without a byte, while a request is read or an answer taken
LONGEST_CONNECTION_S = 60.0  # however steadily its bytes drip
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def listen(host: str, port: int, app: WSGIApplication) -> Server:
    """Return a server of ``app``, bound but not yet serving; raises InputError where it cannot listen there."""
    try:
        return Server(host, port, app)
    except OSError as error:
        remedy = (
            "is in use; choose another with --port, 0 takes a free one"
            if error.errno == errno.EADDRINUSE
            else f"cannot be listened on ({error.strerror or error}); choose others with --host and --port"
        )
        raise InputError(f"port {port} of {host} {remedy}") from error


class Server(ThreadingMixIn, WSGIServer):
    """A thread per connection, at most `MOST_CONNECTIONS`; more are told to come back."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, host: str, port: int, app: WSGIApplication) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        super().__init__((host, port), _Handler)
        self.set_app(app)

    def server_bind(self) -> None:
        """Bind, without asking DNS for the machine's name as `HTTPServer` does: that can take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, or turn it away."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        try:
            request.settimeout(0.1)
            request.sendall(BUSY)
        except OSError as error:
            log.debug("turning %s away: %s", client_address, error)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection."""
        # What drips hangs in reading or writing, and is woken by the end of the connection.
        end = threading.Timer(LONGEST_CONNECTION_S, _end, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note a connection that was reset, or too slow, without a traceback."""
        error = sys.exception()
        if isinstance(error, OSError):
            log.debug("connection from %s: %s", client_address, error)
        else:
            log.error("connection from %s", client_address, exc_info=error)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended already
        connection.shutdown(socket.SHUT_RDWR)


class _AnswerHandler(ServerHandler):
    environ: WSGIEnvironment
    headers: Headers
    server_software = "epochcast-node"
    http_version = "1.1"

    def cleanup_headers(self) -> None:
        """Say that one answer is all."""
        super().cleanup_headers()
        self.headers["Connection"] = "close"

    def log_exception(self, exc_info: Any) -> None:
        """Log what the application raised; a client that went away is no error."""
        if isinstance(exc_info[1], OSError):
            log.debug("answering: %s", exc_info[1])
        else:
            log.error("answering %s", self.environ.get("PATH_INFO"), exc_info=exc_info)


class _Handler(WSGIRequestHandler):
    """Reads one request; logged at debug level only."""

    timeout = LONGEST_REQUEST_S
    disable_nagle_algorithm = True
    server: Server

    def handle(self) -> None:
        """Answer one request."""
        self.raw_requestline = self.rfile.readline(65537)
        if len(self.raw_requestline) > 65536:
            self.requestline = self.request_version = self.command = ""
            self.send_error(414)
            return
        if not self.parse_request():
            return
        handler = _AnswerHandler(self.rfile, self.wfile, sys.stderr, self.get_environ(), multithread=True)  # type: ignore[arg-type]
        handler.request_handler = self  # type: ignore[attr-defined]
        app = self.server.get_app()
        assert app is not None
        handler.run(app)

    def log_message(self, format: str, *args: object) -> None:
        """Log at debug level."""
        log.debug(format, *args)
