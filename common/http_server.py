"""The HTTP server: an event loop shakes hands, reads heads and writes; a few threads run a WSGI application.

A thread is taken for a whole request alone, and only while the application computes: who sends or takes slowly costs nobody a
turn. Health has a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from wsgiref.types import WSGIApplication, WSGIEnvironment

from epochcast.common.authentication import Authentication, guarded
from epochcast.common.errors import InputError
from epochcast.common.http_answer import AppAnswer, BrokenAnswerError, Request
from epochcast.common.http_clients import Clients

log = logging.getLogger(__name__)

LONGEST_GOODBYE_S = 0.5
# Connections that the system holds until the loop accepts them; most systems take no more. By choice.
BACKLOG = 1024
# Between two tries to accept where descriptors or memory are short.
SHORTAGE_PAUSE_S = 0.1
# Bytes of a request's first line, and of all its headers.
LONGEST_LINE = 1 << 16
# Bytes of a request's body that are read and thrown away: closing on unread bytes would cost the client its answer.
LONGEST_BODY = 1 << 16
SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
NOT_TLS = b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nThis port speaks HTTPS only.\n"
TLS_HANDSHAKE = b"\x16"  # RFC 8446, 5.1


@dataclass(frozen=True)
class Limits:
    """What clients may take.

    ``connections``: requests that are answered at once, each by a thread. ``waiting``: whole requests that may wait for a
    thread; the next one gets 503. ``request_s``: seconds for a connection's request (handshake and headers), however slowly
    they drip. ``answer_s``: seconds for its answer, however slowly it is taken. ``silence_s``: seconds in which not one byte is
    taken. ``open``: connections in all, and ``open_per_address``: of one address; where there are more, the oldest that has not
    sent its request yet is closed, of the address that has most.
    """

    connections: int
    waiting: int
    request_s: float
    answer_s: float
    silence_s: float
    open: int = 512
    open_per_address: int = 256


class Server:
    """``serve_forever`` runs the event loop until `shutdown`."""

    def __init__(
        self,
        host: str,
        port: int,
        app: WSGIApplication,
        *,
        name: str,
        limits: Limits,
        hosts: Sequence[str] = (),
        authentication: Authentication | None = None,
        tls: Callable[[], ssl.SSLContext] | None = None,
        before_answer: Callable[[], None] = lambda: None,
        health: frozenset[str] = frozenset(),
    ) -> None:
        """Bind, without serving yet; raises InputError where nobody can listen at ``host`` and ``port``.

        ``name``: what it calls itself in each answer. ``hosts``: names by which it is also asked (`wrong_site`).
        ``authentication``: None answers anybody. ``tls``: what is now to be used of certificates; None speaks plain HTTP.
        ``before_answer``: called by a thread before it runs the application; it may wait. ``health``: paths that wait for
        nobody, and that anybody may ask: a watchdog has no password.
        """
        self.name = name
        self.limits = limits
        self._before_answer = before_answer
        self._tls = tls
        self._door = (host, hosts, authentication)
        self._health = health
        self.set_app(app)
        self._listener = _listener(host, port)
        self.server_address = self._listener.getsockname()
        self.server_port = int(self.server_address[1])
        self._base_environ: WSGIEnvironment = {
            "SERVER_NAME": str(self.server_address[0]),
            "SERVER_PORT": str(self.server_port),
            "GATEWAY_INTERFACE": "CGI/1.1",
            "REMOTE_HOST": "",
            "CONTENT_LENGTH": "",
            "SCRIPT_NAME": "",
        }
        self._clients = Clients(limits.open, limits.open_per_address)
        self._threads = ThreadPoolExecutor(limits.connections, thread_name_prefix="http")
        self._health_thread = ThreadPoolExecutor(1, thread_name_prefix="health")
        self._requests = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: Callable[[], object] = lambda: None
        self._must_stop = False
        self._stopped = threading.Event()

    def set_app(self, application: WSGIApplication) -> None:
        """Answer with this application from the next request on, to those who may ask."""
        self._app = application
        self._guarded = guarded(application, *self._door)

    def serve_forever(self) -> None:
        """Accept and answer until `shutdown` is called."""
        try:
            asyncio.run(self._serve())
        finally:
            self._stopped.set()

    def shutdown(self) -> None:
        """Have `serve_forever` end, and wait until it has; what is open is cut off."""
        self._must_stop = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._stopping)
            self._stopped.wait()

    def server_close(self) -> None:
        """Stop listening."""
        self._listener.close()
        for threads in (self._threads, self._health_thread):
            threads.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.server_close()

    async def _serve(self) -> None:
        accepting = asyncio.create_task(self._accept())
        self._stopping = accepting.cancel
        self._loop = asyncio.get_running_loop()
        if self._must_stop:  # before it began
            accepting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await accepting

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    connection, address = await loop.sock_accept(self._listener)
                except OSError as error:
                    if error.errno in SHORTAGES:
                        # The connection stays in the queue: without a pause the loop would spin on it.
                        log.warning("cannot accept connections: %s", error.strerror)
                        await asyncio.sleep(SHORTAGE_PAUSE_S)
                    continue
                task = group.create_task(self._attend(connection, str(address[0])))
                self._clients.add(task, str(address[0]))
                task.add_done_callback(self._clients.remove)
                # Accepting does not give way by itself: what is open would not be read while others come in.
                await asyncio.sleep(0)

    async def _attend(self, connection: socket.socket, address: str) -> None:
        """Read a connection's request and answer it; no exception leaves here."""
        connection.setblocking(False)
        writer = None
        try:
            async with asyncio.timeout(self.limits.request_s):
                reader, writer = await self._opened(connection)
                request = await self._request(reader, writer, address)
            self._clients.is_whole(asyncio.current_task())
            async with asyncio.timeout(self.limits.answer_s):
                await self._answer(request, reader, writer)
                async with asyncio.timeout(self.limits.silence_s):
                    await _flush(writer)
                await _say_goodbye(reader, writer)
        except (OSError, EOFError, asyncio.CancelledError) as error:
            # Reset, cut off, too slow, or never spoke HTTP: port scans, probes.
            log.debug("connection from %s: %r", address, error)
        except BrokenAnswerError as error:
            log.error("answer to %s", error.path, exc_info=error.__cause__)
        except Exception:
            log.exception("connection from %s", address)
        finally:
            if writer is not None:
                writer.transport.abort()
            connection.close()

    async def _opened(self, connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Shake hands where TLS is spoken, and return both ways of the connection."""
        loop = asyncio.get_running_loop()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        options: dict[str, Any] = {}
        if self._tls is not None:
            await _readable(connection)
            if connection.recv(1, socket.MSG_PEEK) not in (TLS_HANDSHAKE, b""):
                connection.send(NOT_TLS)
                # Closing on unread bytes would take the answer back.
                connection.recv(LONGEST_BODY)
                raise ConnectionError("plain HTTP")
            waits = {"ssl_handshake_timeout": self.limits.request_s, "ssl_shutdown_timeout": LONGEST_GOODBYE_S}
            options = {"ssl": self._tls(), **waits}
        reader = asyncio.StreamReader(limit=LONGEST_LINE)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, **options)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> Request:
        """Read the head; a request that cannot be read is refused."""
        lines: list[bytes] = []
        try:
            while not lines or lines[-1].strip(b"\r\n"):
                lines.append(await reader.readuntil(b"\n"))
                if sum(map(len, lines[1:])) > LONGEST_LINE:
                    raise asyncio.LimitOverrunError("headers", 0)
        except asyncio.LimitOverrunError:
            status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if lines else HTTPStatus.REQUEST_URI_TOO_LONG
            await self._refuse(status, reader, writer)
        request = Request(b"".join(lines), address, self._base_environ)
        if request.refusal:
            writer.write(request.refusal)
            await _say_goodbye(reader, writer)
            raise ConnectionError("the request cannot be read")
        return request

    async def _refuse(
        self, status: HTTPStatus, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: str = ""
    ) -> None:
        head = f"HTTP/1.1 {status} {status.phrase}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        await _say_goodbye(reader, writer)
        raise ConnectionError(status.phrase)

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = request.headers.get("Content-Length", "")
        unread = min(int(length), LONGEST_BODY) if length.isdecimal() else 0
        while unread and (body := await reader.read(unread)):
            unread -= len(body)
        if request.route in self._health:
            await self._run(AppAnswer(self._app, request, self.name), writer, self._health_thread)
            return
        if self._requests >= self.limits.connections + self.limits.waiting:
            await self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, reader, writer, "Retry-After: 1\r\n")
        self._requests += 1
        try:
            await self._run(AppAnswer(self._guarded, request, self.name, self._before_answer), writer, self._threads)
        finally:
            self._requests -= 1

    async def _run(self, answer: AppAnswer, writer: asyncio.StreamWriter, threads: Executor) -> None:
        """Run the application and send what it answers, piece by piece: a thread computes, the loop sends."""
        loop = asyncio.get_running_loop()
        try:
            while (piece := await loop.run_in_executor(threads, answer.next_piece)) is not None:
                writer.write(piece)
                async with asyncio.timeout(self.limits.silence_s):
                    await writer.drain()
        finally:
            with contextlib.suppress(RuntimeError):  # the server is being closed
                threads.submit(answer.close)


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            remedy = "is in use; choose another with --port, or 0 for any free port"
        else:
            remedy = f"cannot be used for listening ({error.strerror or error}); choose others with --host and --port"
        raise InputError(f"port {port} of {host} {remedy}") from error
    listener.setblocking(False)
    return listener


async def _readable(connection: socket.socket) -> None:
    """Return when there is something to read, or the other end has closed."""
    loop = asyncio.get_running_loop()
    there = loop.create_future()
    loop.add_reader(connection, lambda: None if there.done() else there.set_result(None))
    try:
        await there
    finally:
        loop.remove_reader(connection)


async def _flush(writer: asyncio.StreamWriter) -> None:
    """Return when the system has taken all that was written."""
    writer.transport.set_write_buffer_limits(high=1)  # with 0 a TLS transport waits for ever
    await writer.drain()


async def _say_goodbye(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Signal to the client that the answer is complete: over TLS the end of the connection alone does not."""
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(LONGEST_GOODBYE_S):
            if writer.can_write_eof():
                writer.write_eof()
                # Closing on unread bytes would take the answer back.
                while await reader.read(LONGEST_BODY):
                    pass
            writer.close()
            await writer.wait_closed()
