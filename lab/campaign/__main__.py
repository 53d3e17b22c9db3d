"""Train and record a list of workloads on this machine, to fill a corpus."""

import sys

from lab.commands import run

COMMANDS = {"run": "lab.campaign.runner", "plans": "lab.campaign.plan"}


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    return run("lab.campaign", __doc__, COMMANDS, arguments)


if __name__ == "__main__":
    sys.exit(main())
