"""What tests ask of worker processes; these import it by name."""

import os
import signal


def add(one: int, other: int) -> int:
    return one + other


def refuse(sentence: str) -> None:
    raise ValueError(sentence)


def fail() -> None:
    raise KeyError("secret")


def allocate(size: int) -> int:
    return len(bytearray(size))


def end() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
