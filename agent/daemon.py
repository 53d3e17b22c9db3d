"""The running agent: sampling threads, an HTTP server, what it pushes; reloaded and stopped by signals."""

import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from types import FrameType

from prometheus_client import Gauge

from epochcast.agent import real_time
from epochcast.agent.api import Api
from epochcast.agent.config import Config
from epochcast.agent.exposition import registry
from epochcast.agent.node import Node
from epochcast.agent.processes import ProcessCollector, ProcessWatcher
from epochcast.agent.push import PushCollector, Pusher
from epochcast.agent.server import listen
from epochcast.common import logs
from epochcast.common.errors import InputError, in_one_line
from epochcast.common.files import write_port
from epochcast.common.notify import notify, reloading, watchdog_interval

log = logging.getLogger(__name__)

# Each call into the driver gives the interpreter away; while a large answer is formatted, a sampler gets it back only after
# this long (Python's default: 5 ms, which eight GPUs' calls would add up to missed ticks).
SWITCH_INTERVAL_S = 0.0005
SUPERVISION_S = 1.0
# While it waits for the first sample, `LONGEST_START_S` at most, the main thread looks more often.
FIRST_SAMPLE_S = 0.02
# Without a sample by then the agent still reports to systemd that it is up; /readyz says that it waits.
LONGEST_START_S = 20.0
# A sampler that did not tick for so long hangs in the driver; the watchdog then restarts the agent.
LONGEST_TICK_S = 15.0
# Settings that take hold only at a start: the server has bound its port and may have dropped its rights.
FIXED = ("host", "port", "hosts", "port_file", "web")


class Daemon:
    """An agent from opening its sources to closing them. ``load`` reads the settings at each call."""

    def __init__(self, load: Callable[[], Config]) -> None:
        self._load = load
        # Unlike an Event, safe to touch in a signal handler: the signal may come while the main thread holds its lock.
        self._signals = SimpleQueue[int]()
        # Before anything else: sources take seconds to open, and a request to reload must not end the process meanwhile.
        signal.signal(signal.SIGHUP, self._on_signal)
        self._config = config = load()
        logs.setup(config.log_format)
        self._last_reload = Gauge(
            "epochcast_agent_config_last_reload_successful",
            "0 after a reload that kept the old settings, because the new ones are wrong or their sources do not work.",
            registry=None,
        )
        self._last_reload.set(1)
        self._node = Node(config)
        self._pusher: Pusher | None = None
        self._processes: ProcessWatcher | None = None
        try:
            self._exchange(Pusher(self._node, config.push) if config.push.url else None)
            self._watch_processes(config)
            self._server = listen(config, self._app(config))
        except InputError:
            self._stop_sampling()
            raise

    def run(self) -> None:
        """Sample and serve until SIGTERM or SIGINT, reload at SIGHUP; a replay that has ended goes on being served."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        # What was loaded by now stays: the collector need not look through it again and again between ticks.
        gc.collect()
        gc.freeze()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        if real_time.allowed():
            real_time.on_overrun(self._on_overrun)
        self._node.start()
        serving = threading.Thread(target=self._server.serve_forever, name="server", daemon=True)
        serving.start()
        log.info("listening on %s port %d", *self._server.server_address[:2])
        try:
            self._attend()
        finally:
            notify("STOPPING=1")
            self._stop_sampling()
            self._server.shutdown()
            self._server.server_close()

    def _stop_sampling(self) -> None:
        self._node.stop()
        self._exchange(None)
        self._watch_processes(Config())

    def _attend(self) -> None:
        """Look after everything until stopped."""
        clock = self._node.clock
        began = clock.monotonic()
        watchdog = watchdog_interval()
        pause = SUPERVISION_S if watchdog is None else min(SUPERVISION_S, watchdog)
        ready = sampled = False
        while True:
            try:
                number = self._signals.get(timeout=pause if ready else FIRST_SAMPLE_S)
            except Empty:
                number = None
            # Of several hangups the last is enough: each costs the ticks while the sources are reopened.
            while number == signal.SIGHUP and not self._signals.empty():
                number = self._signals.get()
            if number == signal.SIGHUP:
                self._reload()
            elif number is not None:
                log.info("%s: stopping", signal.Signals(number).name)
                return
            if not sampled and self._node.last_sample_time is not None:
                sampled = True
                # Only now: a program that waits for the file may request samples at once.
                write_port(self._config.port_file, self._server.server_port)
            if not ready and (sampled or clock.monotonic() - began > LONGEST_START_S):
                ready = True
                self._say_ready()
            if ready:
                self._supervise()
            if watchdog is not None and self._node.ticks_since(clock.monotonic() - LONGEST_TICK_S):
                notify("WATCHDOG=1")

    def _supervise(self) -> None:
        try:
            self._node.supervise()
        except Exception:
            # Current readings continue even if the search for a better source fails.
            log.exception("a check of the sources failed")

    def _say_ready(self) -> None:
        sources = ", ".join(f"{len(sampler.stores)} by {sampler.source.name}" for sampler in self._node.samplers)
        notify(f"READY=1\nSTATUS={f'sampling {sources}' if sources else f'no GPU can be read: {self._node.failure}'}")

    def _reload(self) -> None:
        """Read the settings again; where they are wrong, say so and go on with the old ones."""
        notify(reloading())
        self._last_reload.set(0)
        try:
            config = self._load()
            # Before anything is changed: a push that cannot work is refused here.
            pusher = Pusher(self._node, config.push) if config.push.url and config.push != self._config.push else None
        except InputError as problem:
            log.error("the settings were not reloaded: %s", in_one_line(problem))
        else:
            if self._reopen(config):
                self._adopt(config, pusher)
        self._say_ready()

    def _reopen(self, config: Config) -> bool:
        """Open the sources as these settings say; where that cannot be, as before. A node that samples is not made blind."""
        sampled = bool(self._node.samplers)
        self._node.reopen(config)
        if sampled and not self._node.samplers:
            log.error("the settings were not reloaded: the devices that they name cannot be read; keeping the old settings")
            self._node.reopen(self._config)
            return False
        return True

    def _adopt(self, config: Config, pusher: Pusher | None) -> None:
        for name in FIXED:
            if getattr(config, name) != getattr(self._config, name):
                log.warning("the setting %s takes effect only after a restart", name)
        logs.setup(config.log_format)
        if config.push != self._config.push:
            self._exchange(pusher)
        if (config.processes, config.process_users) != (self._config.processes, self._config.process_users):
            self._watch_processes(config)
        self._config = config
        self._server.set_app(self._app(config))
        self._last_reload.set(1)
        log.info("the settings were reloaded")

    def _exchange(self, pusher: Pusher | None) -> None:
        """Stop the pusher that runs; the new one sends what the old one could not."""
        if self._pusher is not None:
            self._pusher.stop()
            if pusher is not None:
                pusher.take_over(self._pusher)
            elif waiting := self._pusher.backlog.samples:
                log.warning("remote write ends; %d samples could not be sent", waiting)
        if pusher is not None:
            pusher.start()
        self._pusher = pusher

    def _watch_processes(self, config: Config) -> None:
        """Look for processes from now on as the settings say, or no more."""
        if self._processes is not None:
            self._processes.stop()
        self._processes = ProcessWatcher(config.processes, users=config.process_users) if config.processes else None
        if self._processes is not None:
            self._processes.start()

    def _app(self, config: Config) -> Api:
        everything = registry(self._node, config)
        everything.register(self._last_reload)
        if self._pusher is not None:
            everything.register(PushCollector(self._pusher))
        if self._processes is not None:
            everything.register(ProcessCollector(self._processes))
        return Api(self._node, everything, self._processes)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        self._signals.put(number)

    def _on_overrun(self) -> None:
        # Before anything else: the kernel kills the agent soon.
        self._node.leave_real_time()
        log.error("a tick took more CPU time than real-time scheduling allows: sampling continues without it")
