"""A program's settings: a dataclass with defaults, a TOML file checked against it, the command line on top."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from ipaddress import ip_address
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints
from urllib.parse import SplitResult, urlsplit

from epochcast.common.errors import InputError

T = TypeVar("T")


def load(kind: type[T], path: Path | None, overrides: Mapping[str, Any]) -> T:
    """Return the settings of the TOML file at ``path`` (None: the defaults) with ``overrides`` by name on top.

    ``kind``: the dataclass of all settings; it checks the range of its values itself. Raises InputError for a file that cannot
    be read, an unknown setting or a value of the wrong type or range.
    """
    settings = {} if path is None else _settings(f"the configuration {path}", kind, read_toml(path), "")
    return kind(**{**settings, **overrides})


def read_toml(path: Path) -> dict[str, Any]:
    """Return what the configuration at ``path`` holds; InputError where it cannot be read, is not TOML or has a NUL."""
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise InputError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also not UTF-8, a number of thousands of digits, thousands of brackets
        raise InputError(f"the configuration {path} is not TOML: {error}") from error
    if "\\u0000" in text or "\\U00000000" in text:  # ends in a traceback wherever it is a path or a host
        raise InputError(f"the configuration {path} has a NUL character (\\u0000), which no setting may hold; take it out")
    return table


def remedy(name: str, known: Sequence[str], prefix: str = "") -> str:
    """The end of a sentence about an unknown name; ``prefix`` precedes each of the ``known``."""
    from difflib import get_close_matches  # a program that starts well does not load it

    close = get_close_matches(name, known, n=1)
    return f"did you mean {prefix + close[0]!r}?" if close else f"known: {', '.join(prefix + other for other in known)}"


def check_address(host: str, port: int, hosts: Sequence[str] = ()) -> None:
    """Raise InputError where nobody can listen on this address, or one of ``hosts`` is not the name of a machine."""
    if not host:  # to the system it means every address, which nobody asks for by leaving a variable empty
        raise InputError("host is empty; give an address, as in 127.0.0.1, or 0.0.0.0 for all addresses of this machine")
    if not 0 <= port <= 65535:
        raise InputError(f"port is {port}; give 0 (any free port) to 65535")
    for name in hosts:
        if not isinstance(name, str) or not name or host_name(name) != name:
            raise InputError(f"hosts has {name!r}; give names alone and in lower case, as in gpu-7.example.com")


def host_name(authority: str) -> str:
    """Return the name or address in ``host:port``, in lower case; the empty text where there is none."""
    try:
        return (urlsplit(f"//{authority}").hostname or "").rstrip(".")
    except ValueError:  # brackets that are not closed
        return ""


def is_address(host: str) -> bool:
    """Whether this is an IP address, and not a name."""
    with suppress(ValueError):
        return bool(ip_address(host))
    return False


def is_local(host: str) -> bool:
    """Whether only this machine reaches who listens on this address."""
    return host == "localhost" or (is_address(host) and ip_address(host).is_loopback)


def whole_url(url: str) -> SplitResult | None:
    """Return the parts of a URL that names a scheme of HTTP, a host, and a port that can be, if any; else None."""
    try:
        parts = urlsplit(url)
        return parts if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 else None
    except ValueError:  # brackets that are not closed, a port that is no number or too large
        return None


def _settings(where: str, kind: type[Any], table: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return a TOML table as keyword arguments of the dataclass ``kind``; ``prefix`` is the table's own name and a dot."""
    hints = get_type_hints(kind)
    settings = {}
    for name, value in table.items():
        if name not in hints:
            known = [field.name for field in fields(kind)]
            raise InputError(f"{where} has the unknown setting {prefix + name!r}; {remedy(name, known, prefix)}")
        settings[name] = _value(where, hints[name], value, prefix + name)
    return settings


def _value(where: str, kind: Any, value: Any, name: str) -> Any:
    if isinstance(kind, UnionType):  # Path | None; TOML has no null
        (kind,) = (choice for choice in get_args(kind) if choice is not type(None))
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(value, dict):
            raise InputError(f"{where} sets {name} to {value!r}; it must be a table")
        return kind(**_settings(where, kind, value, f"{name}."))
    accepted, wanted = _ACCEPTED.get(kind, _TABLE)
    if not isinstance(value, accepted) or isinstance(value, bool) != (kind is bool):
        raise InputError(f"{where} sets {name} to {value!r}; it must be {wanted}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where} sets {name} to {value!r}; it must be finite")
    return Path(str(value)) if kind is Path else tuple(value) if isinstance(value, list) else value


# What a TOML value of each type may be, and how a sentence calls it.
_ACCEPTED: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    Path: ((str,), "a path"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    bool: ((bool,), "true or false"),
    tuple[str, ...]: ((list,), "a list of texts"),
}
_TABLE: tuple[tuple[type, ...], str] = ((dict,), "a table")
