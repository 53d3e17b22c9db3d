"""A model's arrays by name; those of a part of a model are named ``PART.NAME``."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


def under(name: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """The arrays as those of part ``name`` of a model."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def part(arrays: Arrays, name: str) -> dict[str, NDArray[Any]]:
    """What :func:`under` put under ``name``."""
    return {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}


def parts_of(arrays: Arrays) -> list[str]:
    """The names of the arrays :func:`under` a name, in their order."""
    return list(dict.fromkeys(name.partition(".")[0] for name in arrays))
