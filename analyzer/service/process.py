"""``epochcast serve``: puts the service together, runs it until it is asked to stop, and stops every part.

Two processes of ours run: this one, and the watcher (`watcher_process`). Worker processes come with the first question that
needs one (`workers`).
"""

from __future__ import annotations

import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.live.health import WatcherReport
from epochcast.analyzer.live.metrics import DetectionMetrics, families
from epochcast.analyzer.live.state_file import alone_with
from epochcast.analyzer.live.state_store import StateStore
from epochcast.analyzer.plugins import Settings as PluginSettings
from epochcast.analyzer.plugins.registry import Registry
from epochcast.analyzer.service.analysis import Analysis
from epochcast.analyzer.service.app import create_app
from epochcast.analyzer.service.auth import REFUSAL
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.connections import Connection
from epochcast.analyzer.service.job_metrics import JobMetrics
from epochcast.analyzer.service.parts import Parts
from epochcast.analyzer.service.watcher_process import WatcherProcess
from epochcast.analyzer.service.workers import Workers
from epochcast.analyzer.telemetry.gpu_report import Report
from epochcast.analyzer.telemetry.settings import opened
from epochcast.common import logs
from epochcast.common.authentication import bearer_token
from epochcast.common.files import write_port
from epochcast.common.http_clients import Clients
from epochcast.common.notify import notify

log = logging.getLogger(__name__)

# For answers that are in progress when the service is asked to stop.
_END_S = 4

# Connections, half of them of one address. Who is cut off may come back at once, and accepting costs more than holding.
_OPEN = 2048
# A burst of connections waits in the system, which takes no more than it is set to, and is accepted a few at a time, so that it
# delays no answer.
_WAITING, _ACCEPTED = 4096, 64
_DESCRIPTORS = 2 * _OPEN

# Threads that compute answers. They take turns at Python's lock, and the event loop, which also answers health, waits for all
# of them: four turns of a millisecond.
_THREADS = 2
_TURN_S = 1e-3


def build(settings: Settings) -> Parts:
    """Return what the service answers from; nothing runs yet.

    Raises:
        InputError: a file that the settings name cannot be read, or the state cannot be written.
    """
    authentication = None if settings.token_file is None else bearer_token(settings.token_file, REFUSAL)
    own = PluginSettings(gpus=settings.gpus, prices=settings.prices, model=settings.model)
    backends = Registry.load(own, settings.backends)
    names = ("pipeline", "model", "objective", "market", "carbon_intensity")
    places = {"regions": settings.regions or None, "clouds": settings.clouds or None}
    configured = JobQuestion.of({name: getattr(settings, name) for name in names} | places)
    advisor = Advisor.load(configured, gpus=settings.gpus, prices=settings.prices, inventory=settings.inventory)
    store = StateStore(settings.state, check=True)
    analysis = Analysis(store, advisor, settings)
    limits = settings.limits
    workers = Workers(limits.workers, limits.worker_memory_bytes, limits.seconds)
    registry = CollectorRegistry()
    detection = DetectionMetrics(lambda: _view(analysis))
    for collector in (detection, JobMetrics(analysis, settings.predicted_gpus)):
        registry.register(collector)
    return Parts(
        settings=settings,
        store=store,
        advisor=advisor,
        analysis=analysis,
        workers=workers,
        backends=backends,
        registry=registry,
        authentication=authentication,
    )


def _view(analysis: Analysis) -> tuple[Mapping[str, Report], WatcherReport]:
    """The GPUs whose metrics are exported here, and not by their nodes."""
    snapshot = analysis.snapshot
    return {uuid: snapshot.reports[uuid] for uuid in snapshot.detected_here - snapshot.gone}, analysis.watcher()


def serve(settings: Settings, listens: Callable[[str], object] = lambda address: None) -> int:
    """Run the service until SIGTERM or SIGINT; return the exit code. ``listens`` is called with its address.

    Raises:
        InputError: see `build`; also where another process listens at the address, or has the state.
    """
    logs.setup()
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn has handlers of its own, and calls these when it has ended
        signal.signal(number, lambda *_: sys.exit(0))
    for source in opened(settings.watched):  # what the watcher would refuse is refused here, where somebody reads it
        source.close()
    with alone_with(settings.state):
        _run(settings, build(settings), listens)
    return 0


def _run(settings: Settings, parts: Parts, listens: Callable[[str], object]) -> None:
    sys.setswitchinterval(_TURN_S)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_DESCRIPTORS, most), most))
    with listening(settings) as listener:
        listens(_announced(settings, listener))
        watcher = WatcherProcess(settings.watched, settings.state, settings.keep_days, settings.gpus, settings.pipeline)
        parts.registry.register(ProcessMetrics(watcher, parts.workers, parts.store))
        ProcessCollector(registry=parts.registry)
        parts.analysis.watcher = lambda: watcher.report
        parts.analysis.problems = lambda: _problems(watcher, parts.store)
        app = create_app(parts)
        server = _Server(app, listener, settings)
        try:
            watcher.start()
            parts.analysis.start()
            gc.freeze()  # what was loaded stays, and looking through it takes 0.15 s in which nothing is answered
            server.run(sockets=[listener])
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            watcher.stop()
            parts.analysis.stop()
            parts.workers.stop()
            parts.store.close()


class _Server(uvicorn.Server):
    """Writes the port file, and notifies systemd, once requests are answered."""

    def __init__(self, app: object, listener: socket.socket, settings: Settings) -> None:
        config = uvicorn.Config(
            app,  # type: ignore[arg-type]
            log_config=None,
            access_log=False,  # requests are counted, and a line for each would fill the journal
            server_header=False,
            proxy_headers=bool(settings.proxies),
            forwarded_allow_ips=[str(proxy) for proxy in settings.proxies],
            backlog=_ACCEPTED,
            timeout_graceful_shutdown=_END_S,
            lifespan="off",
            http=partial(Connection, clients=Clients(_OPEN, _OPEN // 2)),  # type: ignore[arg-type]
            ws="none",
        )
        super().__init__(config)
        self._listener = listener
        self._port_file = settings.port_file

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        current_default_thread_limiter().total_tokens = _THREADS
        await super().startup(sockets)
        self._listener.listen(_WAITING)  # asyncio has one number for both
        write_port(self._port_file, self._listener.getsockname()[1])
        notify("READY=1")


class ProcessMetrics(Collector):
    """How the service's other processes and its state are."""

    def __init__(self, watcher: WatcherProcess, workers: Workers, store: StateStore) -> None:
        self._watcher = watcher
        self._workers = workers
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """Return the families."""
        yield from families(
            (
                ("epochcast_analyzer_watcher_up", (), not self._watcher.problem),
                ("epochcast_analyzer_watcher_restarts_total", (), self._watcher.restarts),
                ("epochcast_analyzer_worker_restarts_total", (), self._workers.restarts),
                ("epochcast_analyzer_damaged_state_files", (), len(self._store.set_aside)),
            )
        )


def _problems(watcher: WatcherProcess, store: StateStore) -> list[str]:
    problems = [watcher.problem] if watcher.problem else []
    if aside := store.set_aside:
        problems.append(
            f"the state file was damaged and a new one was started; the old file is {aside[-1].name} in the same folder; "
            "move it away once you have inspected it"
        )
    return problems


def listening(settings: Settings) -> socket.socket:
    """Return a socket that listens where the settings say. Raises InputError where that cannot be."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named as TCP, or asyncio leaves Nagle's algorithm on, which holds answers back for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(_WAITING)
    except (OSError, UnicodeError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"cannot listen on {settings.host} port {settings.port}: {why}; set another host or port in the configuration"
        ) from error
    return listener


def _announced(settings: Settings, listener: socket.socket) -> str:
    """Log where it listens, and what is wrong with that; return the address."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{listener.getsockname()[1]}"
    log.info("the service listens on %s", address)
    if settings.token_file is None and not settings.local:
        log.warning(
            "anyone who can reach %s can query this service; set token_file in its configuration to require a token",
            settings.host,
        )
    if not settings.sources:
        log.warning(
            "no telemetry source is configured, so the page stays empty; add [[nodes]], [[agents]], [[prometheus]] or [[files]]"
        )
    return address
