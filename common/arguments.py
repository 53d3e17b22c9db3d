"""The parser of the programs that run next to trainings, which start without click."""

import argparse
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """Refuses in one line, without argparse's usage block."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments and leave with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def add_command(commands: "argparse._SubParsersAction[Any]", name: str, does: str, example: str) -> argparse.ArgumentParser:
    """Add a sub-command; the list of commands says what it does, and its own help does so in a sentence."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=does, description=f"{does[:1].upper()}{does[1:]}.", epilog=f"example: {example}"
    )
    return parser
