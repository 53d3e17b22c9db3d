"""Take the measurements that white boxes are fitted to."""

import sys

from lab.commands import run

COMMANDS = {"convmeter": "lab.convmeter.measure", "operators": "lab.distributed.measure", "occupancy": "lab.occupancy.measure"}


def main(arguments: list[str] | None = None) -> int:
    """Run a measurement; its exit code."""
    return run("lab.measure", __doc__, COMMANDS, arguments)


if __name__ == "__main__":
    sys.exit(main())
