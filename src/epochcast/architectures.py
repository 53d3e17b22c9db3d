"""What follows from a GPU's compute capability (``architectures.toml``): the agent and the GPU catalogue both read it."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def architectures() -> Mapping[str, Mapping[str, Any]]:
    """Return the table of each compute capability (``"9.0"``)."""
    return tomllib.loads(files(__package__).joinpath("architectures.toml").read_text(encoding="utf-8"))


def figures_of(compute_capability: str) -> dict[str, float | int]:
    """Return the figures of a compute capability by name, base units; none where it is not known."""
    table = architectures().get(compute_capability, {})
    return {name: value for name, value in table.items() if type(value) in (int, float)}
