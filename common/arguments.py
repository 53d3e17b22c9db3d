"""The parser of the programs that run beside trainings, which start without click."""

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Refuses in one line, not with argparse's usage block in front of it."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the arguments and leave with status 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")
