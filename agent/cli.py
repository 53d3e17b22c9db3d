"""The command ``epochcast-agent``."""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from epochcast.agent.check import report, text
from epochcast.agent.config import AUTO, Config
from epochcast.agent.daemon import Daemon
from epochcast.agent.install import add_commands, install, uninstall
from epochcast.agent.sources import SOURCES
from epochcast.common.arguments import Parser, add_command
from epochcast.common.errors import InputError, in_one_line
from epochcast.common.settings_file import load

EPILOG = """examples:
  epochcast-agent                                read this node's GPUs, or CPUs
  epochcast-agent --replay trace.csv --speed 10  replay ten times as fast
  epochcast-agent check --json                   what can be measured here
  sudo epochcast-agent install                   run as a systemd service (also: install node, install analyzer)
"""


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of the agent's command line."""
    parser = Parser(
        prog="epochcast-agent",
        description="Read GPUs at 10 Hz, keep every sample, and export them over HTTP.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file with settings; flags override it")
    parser.add_argument("--source", choices=(AUTO, *SOURCES), help=f"source to read samples from (default {Config.source})")
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="PATH",
        help="trace (CSV or Parquet) to play, or a folder of them; implies --source replay",
    )
    parser.add_argument("--speed", type=float, metavar="X", help="play the trace X times as fast as recorded (default 1)")
    parser.add_argument("--pid", type=int, metavar="N", help="also measure what this process and its descendants use")
    parser.add_argument(
        "--cgroup", type=Path, metavar="DIR", help="also measure what the processes of this cgroup use; not with --pid"
    )
    parser.add_argument("--compat", metavar="NAME", help="also export metric names of dcgm-exporter=4.8 or dcgm-exporter=4.9")
    parser.add_argument("--host", metavar="ADDR", help=f"address to listen on (default {Config.host})")
    parser.add_argument("--port", type=int, metavar="N", help=f"port to listen on; 0: any free port (default {Config.port})")
    parser.add_argument("--port-file", type=Path, metavar="FILE", help="file to write the port to once samples flow")
    parser.add_argument(
        "--while-stdin",
        action="store_true",
        help="stop when standard input closes, that is, when the parent program ends",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s, version {version('epochcast')}")
    commands = parser.add_subparsers(dest="command", title="commands", parser_class=Parser)
    check = add_command(
        commands,
        "check",
        "show what this node can measure, from which source, and why the rest is missing",
        "epochcast-agent check --json",
    )
    check.add_argument("--settings", action="store_true", help="check the settings alone; exit 2 if they are wrong")
    check.add_argument("--json", action="store_true", help="print the result as JSON: gpus, sources, problems")
    add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status: 0, 2 (one sentence on stderr) for bad input, 130 if interrupted at the start."""
    parser = build_parser()
    settings = vars(parser.parse_args(arguments))
    command, path, while_stdin = (settings.pop(name, None) for name in ("command", "config", "while_stdin"))
    status = 2
    try:
        if command in ("install", "uninstall"):
            program, purge, real_time = (settings.pop(name, False) for name in ("program", "purge", "real_time"))
            if settings:
                parser.error(f"{command} takes no --{next(iter(settings)).replace('_', '-')}")
            if command == "install":
                said = install(program, config=path, real_time=real_time)
            else:
                said = uninstall(program, purge=purge)
            sys.stdout.write("".join(f"{line}\n" for line in said))
            return 0
        as_json, settings_alone = settings.pop("json", False), settings.pop("settings", False)
        config = load(Config, path, settings)
        if settings_alone:
            return 0
        if command == "check":
            result = report(config)
            sys.stdout.write((json.dumps(result, indent=2) if as_json else text(result)) + "\n")
            return 0
        if while_stdin:
            threading.Thread(target=_end_with_stdin, daemon=True).start()
        if "NOTIFY_SOCKET" in os.environ:
            status = 1  # which systemd tries again: a driver or an address may come later
        Daemon(lambda: load(Config, path, settings)).run()
    except InputError as problem:
        sys.stderr.write(f"epochcast-agent: {in_one_line(problem)}\n")
        return status
    except KeyboardInterrupt:  # before the daemon runs and takes the signal itself: while a long trace is read, say
        return 130
    return 0


def _end_with_stdin() -> None:
    """Ask this process to stop once nobody holds the other end of its standard input any more."""
    # Not sys.stdin, whose lock the interpreter would miss at its end.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
