"""``python -m lab.evaluate NAME …``."""

import sys

import click

from lab.commands import Commands, run

COMMANDS = {
    "detector": "lab.evaluate.detector:detector",
    "regressor": "lab.evaluate.regressor:RegressorEvaluation",
    "convmeter": "lab.evaluate.convmeter:ConvMeterEvaluation",
    "distributed": "lab.evaluate.distributed:DistributedEvaluation",
    "occupancy": "lab.evaluate.occupancy:OccupancyEvaluation",
}
"""By name: a click command, or a class made like a backend; imported when it is called."""


@click.group(cls=Commands, commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
def evaluate() -> None:
    """Measure accuracy with protocols that group by workload, so that nothing leaks."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    return run(evaluate, "lab.evaluate", arguments)


if __name__ == "__main__":
    sys.exit(main())
