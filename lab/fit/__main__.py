"""``python -m lab.fit NAME …``."""

import sys

import click

from lab.commands import Commands, run

COMMANDS = {
    "distributed": "lab.distributed.fit:DistributedFit",
    "occupancy": "lab.occupancy.fit:OccupancyFit",
}
"""By name: a click command, or a class made like a backend; imported when it is called."""


@click.group(cls=Commands, commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
def fit() -> None:
    """Fit a white box to measurements."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    return run(fit, "lab.fit", arguments)


if __name__ == "__main__":
    sys.exit(main())
