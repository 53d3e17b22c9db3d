"""Say what corpora cover, merge them, bring logged runs into one, and choose the workloads to measure on a new GPU."""

import sys

from lab.commands import run

COMMANDS = {
    "report": "lab.corpus.coverage",
    "merge": "lab.corpus.merge",
    "import": "lab.corpus.imported",
    "anchors": "lab.corpus.anchors",
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    return run("lab.corpus", __doc__, COMMANDS, arguments)


if __name__ == "__main__":
    sys.exit(main())
