"""Figures that only some evaluations have."""

from typing import Annotated, TypeVar

from pydantic import Field

_T = TypeVar("_T")

Known = Annotated[_T | None, Field(exclude_if=lambda value: value is None)]
"""A field that the JSON omits when it has no value."""
