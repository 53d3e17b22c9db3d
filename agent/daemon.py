"""The running agent: one sampling thread, one HTTP server, stopped by a signal."""

import contextlib
import errno
import logging
import math
import os
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from socketserver import TCPServer
from types import FrameType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client.exposition import ThreadingWSGIServer

from .api import Api
from .config import AUTO, Config
from .errors import InputError
from .exposition import registry
from .sampler import Sampler, SystemClock
from .sources import Options, Source, open_source
from .store import DeviceStore

log = logging.getLogger(__name__)

LONGEST_STOP_S = 5.0
# Each call into the driver gives the interpreter away; while a large answer is formatted, the sampler gets it back only after
# this long (Python's default: 5 ms, which eight GPUs' calls would add up to missed ticks).
SWITCH_INTERVAL_S = 0.0005


class Daemon:
    """An agent from opening its source to closing it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._clock = SystemClock()
        source = choose_source(config)
        capacity = source.recorded_rows or math.ceil(config.retention * source.hertz)
        stores = [DeviceStore(device, capacity, config.window) for device in source.devices]
        self._sampler = Sampler(source, stores, self._clock)
        # Unlike an Event, safe to touch in a signal handler: the signal may come while the main thread holds its lock.
        self._signals = SimpleQueue[int]()
        try:
            self._server = _listen(config, Api(self._sampler, registry(self._sampler, config.window)))
        except InputError:
            source.close()
            raise

    def run(self) -> None:
        """Sample and serve until SIGTERM or SIGINT; a replay that has ended goes on being served."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        for stop in (signal.SIGTERM, signal.SIGINT):
            signal.signal(stop, self._on_signal)
        sampling = threading.Thread(target=self._sampler.run, name="sampler", daemon=True)
        serving = threading.Thread(target=self._server.serve_forever, name="server", daemon=True)
        sampling.start()
        serving.start()
        address, port = self._server.server_address[:2]
        log.info("source %r, listening on %s port %d", self._sampler.source.name, address, port)
        try:
            number = self._announce(int(port)) or self._signals.get()
            log.info("%s: stopping", signal.Signals(number).name)
        finally:
            self._clock.stop()
            # A driver call that hangs must not keep the agent from stopping.
            sampling.join(timeout=LONGEST_STOP_S)
            self._server.shutdown()
            self._server.server_close()
            # Closing waits for the driver too; what hangs there ends with the process.
            if not sampling.is_alive():
                self._sampler.source.close()

    def _announce(self, port: int) -> int | None:
        """Write the port file once the first sample has arrived: whoever waits for it may then ask for samples at once.

        Returns the signal that told the agent to stop before that, None when there was none.
        """
        if self._config.port_file is None:
            return None
        while self._sampler.last_sample_time is None:
            with contextlib.suppress(Empty):
                return self._signals.get(timeout=0.02)
        write_whole(self._config.port_file, f"{port}\n")
        return None

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signals.put(number)


def choose_source(config: Config) -> Source:
    """Return the source that the settings ask for; ``auto`` takes NVML where it works, else the host, and says why."""
    options = Options(replay=config.replay, speed=config.speed)
    if config.chosen_source != AUTO:
        return open_source(config.chosen_source, options)
    try:
        return open_source("nvml", options)
    except InputError as problem:
        log.info("reading the host's own CPUs: %s", problem)
        return open_source("host", options)


def write_whole(path: Path, text: str) -> None:
    """Write a small file so that a reader sees all of it or nothing."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        Path(temporary).replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise InputError(f"cannot write {path}: {error.strerror}") from error


class _Server(ThreadingWSGIServer):
    """prometheus_client's server, which also listens on IPv6 and does not ask DNS for its own name (that can take seconds)."""

    def server_bind(self) -> None:
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note a connection that was reset or said nothing (port scans, probes) without a traceback on stderr."""
        if isinstance(sys.exception(), OSError):
            log.debug("connection from %s: %s", client_address, sys.exception())
        else:
            super().handle_error(request, client_address)


class _Handler(WSGIRequestHandler):
    """Requests are logged at debug level only; a client that stops reading is dropped."""

    timeout = 30

    def log_message(self, format: str, *args: object) -> None:
        log.debug(format, *args)


def _listen(config: Config, app: Api) -> _Server:
    class Server(_Server):
        address_family = socket.AF_INET6 if ":" in config.host else socket.AF_INET

    try:
        return make_server(config.host, config.port, app, Server, _Handler)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            remedy = "is in use; choose another with --port, 0 takes a free one"
        else:
            remedy = f"cannot be listened on ({error.strerror or error}); choose others with --host and --port"
        raise InputError(f"port {config.port} of {config.host} {remedy}") from error
