"""Python's types in words that a user of TOML or JSON knows."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from markdown import code

_PLAIN = {
    str: "text",
    Path: "path",
    int: "whole number",
    float: "number",
    bool: "true or false",
    NoneType: "null",
    date: "date",
    Any: "any value",
}
_BOUNDS = (("gt", ">"), ("ge", "≥"), ("lt", "<"), ("le", "≤"))


def type_name(hint: Any, with_null: bool = False) -> str:
    """What a value of this type may be; ``with_null``: say where it may be null (TOML has none)."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        constraints = getattr(inner[1], "metadata", ())
        bounds = [f"{sign} {getattr(one, name):,}" for one in constraints for name, sign in _BOUNDS if hasattr(one, name)]
        return type_name(inner[0], with_null) + (f", {' and '.join(bounds)}" if bounds else "")
    if origin in (UnionType, Union):
        return " or ".join(type_name(one, with_null) for one in inner if with_null or one is not NoneType)
    if origin is Literal:
        return " or ".join(code(str(one)) for one in inner)
    if origin in (list, tuple):
        return f"list of {type_name(inner[0])}"
    if origin in (dict, Mapping):
        return f"name → {type_name(inner[1])}"
    return _PLAIN.get(hint) or hint.__name__
