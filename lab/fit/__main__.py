"""Fit a white box to measurements."""

import sys

from lab.commands import run

COMMANDS = {"distributed": "lab.distributed.fit", "occupancy": "lab.occupancy.fit"}


def main(arguments: list[str] | None = None) -> int:
    """Run a fit; its exit code."""
    return run("lab.fit", __doc__, COMMANDS, arguments)


if __name__ == "__main__":
    sys.exit(main())
