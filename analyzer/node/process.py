"""The running node analyzer: the watcher of one agent, and a thread that answers HTTP."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from ...common.authentication import bearer_token
from ...common.http_server import Limits, Server
from ...regressor import load_catalog
from ..files import write_whole
from ..live.state_lock import alone_with
from ..live.state_store import StateStore
from ..live.watcher import Watcher
from ..telemetry import TelemetrySource
from ..telemetry.sources import opened
from .api import Api
from .config import NodeConfig

log = logging.getLogger(__name__)

# Nobody waits for a thread, and no connection takes more than a minute.
LIMITS = Limits(connections=32, waiting=0, request_s=10.0, answer_s=50.0, silence_s=10.0)
# Whoever restarts a node by it has no token, and it tells nothing but whether detection runs.
OPEN_PATHS = frozenset({"/healthz"})
REFUSAL = "this node wants a token; send it as 'Authorization: Bearer TOKEN'"


def run(config: NodeConfig, stop: threading.Event) -> None:
    """Detect and answer until ``stop`` is set; then what was found is written, and all is closed.

    Raises:
        InputError: a file cannot be read or written, or the port or the state is taken.
    """
    sources = opened([config.source])
    with alone_with(config.state):
        _run(config, sources, stop)
    log.info("stopped")


def _run(config: NodeConfig, sources: Sequence[TelemetrySource], stop: threading.Event) -> None:
    store = StateStore(config.state, check=True)
    try:
        watcher = Watcher(sources, store, catalog=load_catalog(config.gpus), keep_days=config.keep_days)
        with _listen(config, Api(watcher, store)) as server:
            serving = threading.Thread(target=server.serve_forever, name="server", daemon=True)
            serving.start()
            log.info("listening on %s port %d, asking %s", config.host, server.server_port, config.agent)
            if config.port_file is not None:
                port = f"{server.server_port}\n".encode()
                write_whole(config.port_file, lambda file: file.write(port))
            try:
                watcher.run(stop)
            finally:
                server.shutdown()
    finally:
        store.close()


def _listen(config: NodeConfig, api: Api) -> Server:
    token = None if config.token_file is None else bearer_token(config.token_file, REFUSAL, OPEN_PATHS)
    return Server(config.host, config.port, api, name="epochcast-node", limits=LIMITS, authentication=token)
