"""``python -m lab.measure NAME …``."""

import sys

import click

from lab.commands import Commands, run

COMMANDS = {
    "operators": "lab.distributed.measure:OperatorMeasurement",
    "occupancy": "lab.occupancy.measure:OccupancyMeasurement",
}
"""By name: a click command, or a class made like a backend; imported when it is called."""


@click.group(cls=Commands, commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
def measure() -> None:
    """Take the measurements that white boxes are fitted to."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    return run(measure, "lab.measure", arguments)


if __name__ == "__main__":
    sys.exit(main())
