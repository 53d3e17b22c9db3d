"""Studies of the workshop, ``python -m lab.evaluate NAME …``: arguments in, an answer out, as tables or as JSON.

A study is a module with ``options(parser)`` and ``study(asked)``. Its answer is what JSON can hold; bad input is one sentence
on stderr and exit code 2.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from epochcast.analyzer.cli import progress
from epochcast.analyzer.errors import AgentError, InputError
from epochcast.analyzer.plain_json import plain, plain_json
from epochcast.detector import InputError as DetectorInputError
from epochcast.regressor import InputError as RegressorInputError

REFUSALS = (InputError, RegressorInputError, DetectorInputError)
"""What the rooms raise for bad input."""


class Nothing(dict[str, Any]):
    """An answer that lacks what was asked: exit code 1."""


class Parser(argparse.ArgumentParser):
    """argparse's, that refuses in one sentence."""

    def error(self, message: str) -> NoReturn:
        """Bad usage is bad input."""
        raise InputError(message)


def run(program: str, about: str | None, studies: Mapping[str, str], arguments: Sequence[str] | None = None) -> int:
    """Run the study named first, of the module that ``studies`` has under this name; its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(f"usage: python -m {program} NAME …, see NAME --help\n\n{about}\n\n" + "\n".join(studies))
        return 0
    if words[0] not in studies:
        note(f"{program}: unknown command {words[0]!r}; known are {', '.join(studies)}")
        return 2
    module = importlib.import_module(studies[words[0]])
    return run_study(f"{program} {words[0]}", module.__doc__, module.options, module.study, words[1:])


def run_study(
    program: str,
    about: str | None,
    options: Callable[[argparse.ArgumentParser], object],
    study: Callable[[argparse.Namespace], Any],
    arguments: Sequence[str] | None = None,
) -> int:
    """Run one study; 0, 1 where its answer is :class:`Nothing` (or all of several are), 2 for bad input."""
    parser = Parser(prog=f"python -m {program}", description=about)
    options(parser)
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    try:
        asked = parser.parse_intermixed_args(arguments)
        answer = study(asked)
    except (*REFUSALS, AgentError) as error:
        note(f"{program}: {error}")
        return 2
    finally:
        progress.clear()
    if answer is None:  # the first of several processes answers for all
        return 0
    print(plain_json(answer) if asked.json else text(answer))
    subjects = answer if isinstance(answer, list) else [answer]
    return 1 if all(isinstance(one, Nothing) for one in subjects) else 0


def note(sentence: str) -> None:
    """Say what a reader has to know, on stderr."""
    sys.stderr.write(" ".join(sentence.split()) + "\n")


def gpus_option(parser: argparse.ArgumentParser) -> None:
    """``--gpus``, for :func:`~epochcast.regressor.load_catalog`."""
    parser.add_argument("--gpus", type=Path, help="TOML file with GPUs of your own")


def text(answer: Any) -> str:
    """An answer for people: its figures a line each, then a table of each group of figures."""
    return "\n\n".join(_parts(plain(answer), ""))


def _parts(value: Any, title: str) -> list[str]:
    groups = list(value.values()) if isinstance(value, dict) else value
    head = f"{title}\n" if title else ""
    if groups and all(isinstance(one, dict) and _figures(one) for one in groups):
        names = list(value) if isinstance(value, dict) else None
        return [head + _table(pd.DataFrame(list(map(_figures, groups)), index=names))]
    if not isinstance(value, dict):
        return [f"{title}: {', '.join(map(_cell, groups))}"] if groups else []
    lines = "\n".join(f"{key}: {_cell(own)}" for key, own in _figures(value).items())
    deeper = [(f"{title} {key}".strip(), own) for key, own in value.items() if isinstance(own, dict | list)]
    return [*([head + lines] if lines else []), *(part for name, own in deeper for part in _parts(own, name))]


def _figures(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if not isinstance(value, dict | list)}


def _table(frame: pd.DataFrame) -> str:
    shown = frame.loc[:, frame.notna().any()]
    return shown.to_string(na_rep="-", float_format=_cell)


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
