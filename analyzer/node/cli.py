"""The command ``epochcast serve --node``, without anything that the ``node`` extra does not bring."""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.node.config import NodeConfig
from epochcast.common import logs
from epochcast.common.arguments import Parser
from epochcast.common.errors import in_one_line
from epochcast.common.settings_file import load
from epochcast.extras import how_to_install

EPILOG = """examples:
  epochcast serve --node
  epochcast serve --node --config /etc/epochcast/node.toml
  epochcast serve --node --host 0.0.0.0 --state ./node.db
"""
_NEEDED = {"scipy": "scipy", "urllib3": "urllib3", "numpy": "numpy", "prometheus_client": "prometheus-client"}


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="epochcast serve --node",
        description="Find the epochs of this node's GPUs in its agent's samples, and serve\nthem and profiles over HTTP.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("--node", action="store_true", help="run detection next to an agent instead of the central service")
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file with settings; flags override it")
    parser.add_argument("--agent", metavar="URL", help=f"address of the agent (default {NodeConfig.agent})")
    parser.add_argument("--host", metavar="ADDR", help=f"address to listen on (default {NodeConfig.host})")
    parser.add_argument(
        "--port", type=int, metavar="N", help=f"port to listen on; 0: any free port (default {NodeConfig.port})"
    )
    parser.add_argument("--port-file", type=Path, metavar="FILE", help="file to write the port to once the node listens")
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="file that keeps the state across restarts (default /var/lib/epochcast-node/state.db)",
    )
    # The setting is called `node`, which the command line has taken for choosing this very program.
    parser.add_argument("--name", metavar="NAME", help="name of this machine (default its host name)")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the node analyzer until SIGTERM or SIGINT; return the exit status: 0, or 2 with one sentence on stderr."""
    settings = vars(_parser().parse_args(arguments))
    settings.pop("node", None)
    if "name" in settings:
        settings["node"] = settings.pop("name")
    if missing := [package for module, package in _NEEDED.items() if importlib.util.find_spec(module) is None]:
        sys.stderr.write(
            f"epochcast: the node analyzer is not installed here ({', '.join(missing)} missing); {how_to_install('node')}\n"
        )
        return 2
    from epochcast.analyzer.node.process import run
    from epochcast.analyzer.telemetry.settings import opened
    from epochcast.regressor.errors import InputError as CatalogueError  # only now: it loads what was looked for

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    logs.setup()
    status = 2
    try:
        config = load(NodeConfig, settings.pop("config", None), settings)
        sources = opened([config.source])
        if "NOTIFY_SOCKET" in os.environ:
            status = 1  # which systemd tries again: an address or a folder may come later
        run(config, sources, stop)
    except (InputError, CatalogueError) as error:
        sys.stderr.write(f"epochcast serve --node: {in_one_line(error)}\n")
        return status
    return 0
