"""A watcher that answers HTTP: a thread over it and its store. The node analyzer is one, of its agent; so is each shard."""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
from collections.abc import Sequence
from http import HTTPStatus
from typing import cast
from wsgiref.types import WSGIEnvironment

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.live.health import problems_of
from epochcast.analyzer.live.metrics import DetectionMetrics
from epochcast.analyzer.live.state_file import alone_with
from epochcast.analyzer.live.state_store import StateStore
from epochcast.analyzer.live.watcher import LONGEST_TURN_S, Watcher
from epochcast.analyzer.node.config import NodeConfig
from epochcast.analyzer.node.report_changes import ReportChanges
from epochcast.analyzer.telemetry import TelemetrySource
from epochcast.analyzer.telemetry.gpu_report import epoch_json, report_json
from epochcast.analyzer.telemetry.nodes import EPOCHS_SCHEMA, MOST_EPOCHS, REPORTS_SCHEMA
from epochcast.common.authentication import bearer_token
from epochcast.common.files import write_port
from epochcast.common.http_server import Limits, Server
from epochcast.common.notify import notify
from epochcast.common.routes import Answer, Query, Routes, json_answer, only_known, refusal
from epochcast.common.settings_file import is_local
from epochcast.regressor import load_catalog
from epochcast.regressor.pipelines import Pipeline

log = logging.getLogger(__name__)

# Nobody waits for a thread, and no connection takes more than a minute.
LIMITS = Limits(connections=32, waiting=0, request_s=10.0, answer_s=50.0, silence_s=10.0)
# Tools that restart a node have no token, and it reveals only whether detection runs.
OPEN_PATHS = frozenset({"/healthz"})
# Of its sources, in the log.
_NAMED = 3
REFUSAL = "this node requires a token; send it as 'Authorization: Bearer TOKEN'"


def run(config: NodeConfig, sources: Sequence[TelemetrySource], stop: threading.Event) -> None:
    """Detect in what the sources give, and answer, until ``stop`` is set; then what was found is written, and all is closed.

    What the settings say of an agent counts for nothing here: it is a source like others.

    Raises:
        InputError: a file cannot be read or written, or the port or the state is taken.
    """
    with alone_with(config.state):
        _run(config, sources, stop)
    log.info("stopped")


def _run(config: NodeConfig, sources: Sequence[TelemetrySource], stop: threading.Event) -> None:
    store = StateStore(config.state, check=True)
    try:
        watcher = Watcher(
            sources,
            store,
            catalog=load_catalog(config.gpus),
            keep_days=config.keep_days,
            pipeline=cast(Pipeline, config.pipeline),
        )
        with _listen(config, Api(watcher, store)) as server:
            serving = threading.Thread(target=server.serve_forever, name="server", daemon=True)
            serving.start()
            names = ", ".join(source.name for source in sources[:_NAMED]) + ", …" * (len(sources) > _NAMED)
            log.info("listening on %s port %d, reading %s", config.host, server.server_port, names or "nothing")
            if config.token_file is None and not is_local(config.host):
                log.warning("anyone who can reach %s can read this node's epochs; set token_file", config.host)
            try:
                write_port(config.port_file, server.server_port)
                notify("READY=1")
                watcher.run(stop)
            finally:
                server.shutdown()
    finally:
        store.close()


def _listen(config: NodeConfig, api: Api) -> Server:
    token = None if config.token_file is None else bearer_token(config.token_file, REFUSAL)
    address = (config.host, config.port)
    return Server(
        *address, api, name="epochcast-node", limits=LIMITS, hosts=config.hosts, authentication=token, health=OPEN_PATHS
    )


EPOCHS = 1000  # of one answer, unless limit says otherwise
REPORTS = 500  # of one answer, some 15 KB each


class Api(Routes):
    """``/metrics``, ``/api/v1/reports?since=``, ``/api/v1/epochs?gpu=&since=&limit=``, and ``/healthz``: does detection run?"""

    def __init__(self, watcher: Watcher, store: StateStore) -> None:
        """Answer from these."""
        self._watcher = watcher
        self._store = store
        self._changes = ReportChanges()
        self._registry = CollectorRegistry()
        self._registry.register(DetectionMetrics(lambda: (watcher.reports, watcher.report)))
        ProcessCollector(registry=self._registry)
        routes = {"/api/v1/reports": self._reports, "/api/v1/epochs": self._epochs, "/healthz": self._health}
        super().__init__({"/metrics": self._metrics, **routes})

    def _metrics(self, _: Query, environ: WSGIEnvironment) -> Answer:
        encode, kind = choose_encoder(environ.get("HTTP_ACCEPT", ""))
        return Answer(HTTPStatus.OK, kind, [encode(self._registry)])

    def _reports(self, query: Query, _: WSGIEnvironment) -> Answer:
        reports = self._watcher.reports
        mark, changed, pulses, more = self._changes.since(query.get("since", [""])[-1], reports, REPORTS)
        page = {"mark": mark, "reports": [report_json(report) for report in changed], "pulses": pulses, "more": more}
        return json_answer({"schema": REPORTS_SCHEMA, **page, "problems": problems_of(self._watcher.report)})

    def _epochs(self, query: Query, _: WSGIEnvironment) -> Answer:
        only_known(query, "gpu", "since", "limit")
        gpu = query.get("gpu", [""])[-1]
        if not gpu:
            raise InputError(f"gpu is missing; name one by its UUID: {', '.join(self._watcher.reports) or 'none is known yet'}")
        since, limit = _number(query, "since", -math.inf), _number(query, "limit", float(EPOCHS))
        if not (limit.is_integer() and 1 <= limit <= MOST_EPOCHS):
            raise InputError(f"limit is {limit:g}; give a whole number from 1 to {MOST_EPOCHS}")
        try:
            if gpu not in self._watcher.reports and self._store.report(gpu) is None:
                return refusal(HTTPStatus.NOT_FOUND, f"unknown gpu {gpu!r:.100}; /api/v1/reports names all")
            epochs = self._store.epochs(gpu, since=None if since == -math.inf else since, limit=int(limit))
        except sqlite3.Error as error:
            log.warning("the state cannot be read: %s", error)
            said = f"the state cannot be read now ({error}); try again"
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, said, ("Retry-After", "5"))
        return json_answer({"schema": EPOCHS_SCHEMA, "gpu": gpu, "epochs": [epoch_json(epoch) for epoch in epochs]})

    def _health(self, _: Query, __: WSGIEnvironment) -> Answer:
        agent = [{"url": source.name, "up": source.up, "error": source.error} for source in self._watcher.sources]
        health = self._watcher.health
        state = {"gpus": health.gpus, "agents": agent, "last_turn_s": round(health.turn_s, 3)}
        if health.turn_s > LONGEST_TURN_S:
            return json_answer({"status": "detection hangs", **state}, HTTPStatus.SERVICE_UNAVAILABLE)
        # A restart would not free a disk, so the answer stays 200.
        status = f"the state cannot be written: {health.store_error}" if health.store_error else "ok"
        return json_answer({"status": status, **state})


def _number(query: Query, name: str, default: float) -> float:
    text = query.get(name, [""])[-1]
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{name} is {text!r:.100}; give a number")
    return value
