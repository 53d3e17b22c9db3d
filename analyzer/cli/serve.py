"""``epochcast serve``."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.errors import InputError
from epochcast.common.errors import in_one_line
from epochcast.extras import how_to_install


@click.command()
@click.option(
    "--config", type=click.Path(path_type=Path), metavar="FILE", help="TOML file with settings. [default: built-in settings]"
)
@click.option("--node", is_flag=True, help="Run only detection, next to this node's agent (see `serve --node --help`).")
@click.option("--shard", metavar="I/N", help="Watch one share of the sources; N is the number of `shards` in the file.")
@click.option("--demo", is_flag=True, help="Serve simulated GPUs; needs no GPU, agent or settings.")
@click.option("--port", type=click.IntRange(0, 65535), metavar="N", help="With --demo: the port. [default: a free one]")
def serve(config: Path | None, node: bool, shard: str | None, demo: bool, port: int | None) -> int:
    """Run the analyzer as a service that reads the telemetry of many GPUs, finds jobs and epochs, predicts and recommends.

    It listens on http://127.0.0.1:9913 by default: a web page at /, the API under /api/v1 (described at /openapi.json), metrics
    at /metrics. The package's file systemd/analyzer.toml shows every setting. SIGTERM ends it with exit code 0.

    With --demo it plays recordings of ten simulated GPUs whose jobs began five minutes ago, and removes what it wrote when it
    ends.

    \b
    Example: epochcast serve --config /etc/epochcast/analyzer.toml
             epochcast serve --demo
    """
    if node:  # `entry` has dispatched it before; only a caller of this command line comes here
        raise InputError("--node must be the first option: epochcast serve --node")
    needed = ("fastapi", "uvicorn", "pebble")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"the service is not installed here ({', '.join(missing)} missing); {how_to_install('service')}")
    from epochcast.analyzer.service.config import DemoServiceSettings, load_settings
    from epochcast.analyzer.service.process import serve as run
    from epochcast.analyzer.service.shard_process import serve_shard
    from epochcast.analyzer.telemetry.shard import Shard
    from epochcast.regressor.errors import InputError as CatalogueError

    if demo and (config is not None or shard is not None):
        raise InputError("--demo takes neither --config nor --shard; give only --port next to it")
    if not demo and port is not None:
        raise InputError("--port is for --demo; set the port in the configuration instead")
    try:
        if shard is not None:
            return serve_shard(load_settings(config), Shard.parse(shard))
        if not demo:
            return run(load_settings(config))
        with tempfile.TemporaryDirectory(prefix="epochcast-demo-") as scratch:
            return run(DemoServiceSettings(port=port or 0, state=Path(scratch, "state.db")), _show_demo)
    except (InputError, CatalogueError) as error:
        raise InputError(in_one_line(error)) from error


def _show_demo(address: str) -> None:
    terminal.say(f"Simulated GPUs: open {address} in a browser; Ctrl-C ends the demo.")
