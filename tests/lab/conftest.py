"""Commands of the workshop, run in this process, and fixtures of other rooms."""

import importlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from ..detector.conftest import cpu_training, real_trace
from ..regressor.conftest import catalog, made_up_profiles, make_profile, make_up, pairs, public_profiles, rates

__all__ = [
    "catalog",
    "cpu_training",
    "made_up_profiles",
    "make_profile",
    "make_up",
    "pairs",
    "public_profiles",
    "rates",
    "real_trace",
]


@pytest.fixture
def lab(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run ``python -m lab.NAME …``; what it prints, or its one sentence where it ends with 2."""

    def run(name: str, *arguments: object, status: int = 0) -> str:
        capsys.readouterr()
        assert importlib.import_module(f"lab.{name}.__main__").main([*map(str, arguments)]) == status
        said = capsys.readouterr()
        if status != 2:
            return said.out
        assert said.err.count("\n") == 1 and not said.out, said
        return said.err

    return run


@pytest.fixture
def lab_answer(lab: Callable[..., str]) -> Callable[..., Any]:
    """The same with ``--json``; its answer."""
    return lambda name, *arguments, **status: json.loads(lab(name, *arguments, "--json", **status))
