"""``epochcast serve --shard``: a watcher of a share of the service's sources, which the service reads as it reads a node."""

from __future__ import annotations

import signal
import threading
from urllib.parse import urlsplit

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.node.config import NodeConfig
from epochcast.analyzer.node.process import run
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.telemetry.settings import opened
from epochcast.analyzer.telemetry.shard import Shard
from epochcast.common import logs


def serve_shard(settings: Settings, shard: Shard) -> int:
    """Watch until SIGTERM or SIGINT; return the exit code.

    It listens at the host of the settings and the port of its address in ``shards``, and keeps a state of its own next to the
    service's.

    Raises:
        InputError: the settings have another number of shards, or see `run`.
    """
    if shard.count != len(settings.shards):
        raise InputError(
            f"--shard is {shard.number}/{shard.count}, but the setting shards lists {len(settings.shards)}; list the address "
            "of each shard, in order, in the configuration file that all shards share"
        )
    _ = settings.watched  # are the addresses whole?
    url = urlsplit(settings.shards[shard.number - 1])
    state = settings.state.with_stem(f"{settings.state.stem}-{shard.number}")
    config = NodeConfig(
        host=settings.host,
        port=url.port or 80,
        token_file=settings.token_file,
        state=state,
        keep_days=settings.keep_days,
        pipeline=settings.pipeline,
        gpus=settings.gpus,
    )
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    logs.setup()
    run(config, opened(settings.sources, shard), stop)
    return 0
