"""What the frozen figures have in common: how the product is asked, and what is kept of its answers.

A case is one line of a JSON file: its name, and its figures by name. Nothing here knows how the product works inside.
"""

import io
import json
import os
import shlex
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Figure = float | int | str | None
Cases = dict[str, dict[str, Figure]]

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("EPOCHCAST_SHARED", ROOT.parent / "shared")) / "data"

# Processors add in different orders: a search ends a little elsewhere. Within these with AVX2 and with AVX-512.
EXACT, FITTED, NEURAL = 1e-6, 1e-4, 1e-3

SPENT = {"cpu_s", "cpu_s_per_hour"}
"""What an answer took: of this machine and this minute."""


@dataclass(frozen=True)
class Part:
    """Cases that are made together.

    Attributes:
        name: begins the name of each of its cases.
        cases: makes all of them.
        quick: makes those that the test suite compares; nothing where it is left out.
        needs: packages and programs without which it is skipped; ``shared`` stands for the public measurements.
        rel: how far numbers may be off.
    """

    name: str
    cases: Callable[[], Cases]
    quick: Callable[[], Cases] | None = None
    needs: tuple[str, ...] = ()
    rel: float = EXACT

    @property
    def missing(self) -> list[str]:
        """What it needs and this machine does not have."""
        return [need for need in self.needs if not _here(need)]


def _here(need: str) -> bool:
    return SHARED.is_dir() if need == "shared" else bool(shutil.which(need) or find_spec(need))


def ask(command: str, program: Callable[[list[str]], int] | None = None) -> tuple[int, Any, str]:
    """What a command (of `epochcast`, if no other program) does with ``--json``: exit status, answer (None where it refuses),
    and what else it says.

    ``DATA`` and ``SHARED`` in a word stand for our own and the public measurements.
    """
    from epochcast.analyzer.cli import main

    words = [word.replace("SHARED", str(SHARED)).replace("DATA", str(ROOT / "data")) for word in shlex.split(command)]
    printed, said = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(said):
        status = (program or main)([*words, "--json"])
    return status, json.loads(printed.getvalue() or "null"), said.getvalue()


def answer(command: str, program: Callable[[list[str]], int] | None = None) -> Any:
    """The answer of a command that must not fail."""
    status, document, said = ask(command, program)
    assert status == 0, f"{command}: {status}, {said}"
    return document


def evaluate(command: str) -> Any:
    """What `python -m lab.evaluate` says of a model: the one place that knows how it is called."""
    from lab.evaluate.__main__ import main

    return answer(command, main)


def tables(document: Any, name: str = "all", without: Collection[str] = ()) -> Iterator[tuple[str, dict[str, Figure]]]:
    """Every table of an answer as a case of its own numbers, named by the way to it; in a list by its words, and its
    place where these are equal.

    Of what it compares with (``baselines``) only the figures overall; none of the tables ``without``.
    """
    if isinstance(document, list):
        rows = [one for one in document if isinstance(one, dict)]
        names = [" ".join([name, *(str(value) for value in one.values() if isinstance(value, str) and value)]) for one in rows]
        for number, (one, its_name) in enumerate(zip(rows, names, strict=True), start=1):
            yield from tables(one, its_name if names.count(its_name) == 1 else f"{its_name} {number}", without)
        return
    kept = {key: value for key, value in document.items() if key not in SPENT}
    if numbers := {key: value for key, value in kept.items() if isinstance(value, int | float)}:
        yield name, numbers
    for key, value in kept.items():
        if key not in without and isinstance(value, dict | list):
            deeper = {*without, "settings", "by"} if key == "baselines" else without
            yield from tables(value, f"{name} {key}", deeper)


def evaluated(command: str, *without: str) -> Callable[[], Cases]:
    """Makes all tables of an evaluation but these."""
    return lambda: dict(tables(evaluate(command), without=without))
