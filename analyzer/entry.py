"""The ``epochcast`` command's first step: says which extra to install where only the agent's packages are."""

import importlib.util
import signal
import sys

from epochcast.extras import how_to_install


def main() -> int:
    """Run the command line; exit code 2 with one sentence where the ``analyzer`` extra is not installed."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"] and "--node" in arguments:  # a node has only the ``node`` extra
        from epochcast.analyzer.node.cli import main as node

        return node(arguments[1:])
    needed = ("click", "pandas", "pyarrow", "scipy", "sklearn", "urllib3")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        extra, beside = ("service", ", or add --node next to an agent") if arguments[:1] == ["serve"] else ("analyzer", "")
        sys.stderr.write(
            f"epochcast: the analyzer is not installed here ({', '.join(missing)} missing); {how_to_install(extra)}{beside}\n"
        )
        return 2
    # As an exception, so that children are ended and samples written; the shell's code for a process ended by SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        from epochcast.analyzer.cli import main as command_line

        return command_line()
    except KeyboardInterrupt:  # before or after click, which answers it in between
        return 128 + signal.SIGINT
