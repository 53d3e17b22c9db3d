"""``python -m lab.kernels FILE …``."""

import sys

from lab.commands import run
from lab.kernels.command import occupancy_of


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    return run(occupancy_of, "lab.kernels", arguments)


if __name__ == "__main__":
    sys.exit(main())
