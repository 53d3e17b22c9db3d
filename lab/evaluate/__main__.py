"""Measure accuracy with protocols that group by workload, so that nothing leaks."""

import sys

from lab.commands import run

COMMANDS = {name: f"lab.evaluate.{name}" for name in ("detector", "regressor", "convmeter", "distributed", "occupancy")}


def main(arguments: list[str] | None = None) -> int:
    """Run an evaluation; its exit code."""
    return run("lab.evaluate", __doc__, COMMANDS, arguments)


if __name__ == "__main__":
    sys.exit(main())
