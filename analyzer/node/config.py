"""The node analyzer's settings: defaults, then a TOML file, then the command line."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from ..errors import InputError
from ..telemetry.settings import AgentSettings

_FIELDS_OF_AGENT = ("interval", "node", "instance", "cloud", "region", "user", "password_file", "ca")


@dataclass(frozen=True)
class NodeConfig:
    """Settings of ``epochcast serve --node``, checked.

    ``agent``: address of the agent beside it; ``interval``: seconds between two questions to it; ``user``, ``password_file``,
    ``ca``: its basic authentication, and the PEM file to check its certificate with. ``host``, ``port``: where to listen, port
    0 takes a free one; ``port_file``: written with the bound port. ``token_file``: holds the token that whoever asks must
    bear; without it anybody may ask. ``state``: file for what must survive a restart; ``keep_days``: of epochs in it.
    ``gpus``: TOML file of GPUs that the catalogue lacks. ``node``: what this machine is called, empty for its host name.
    ``instance``, ``cloud``, ``region``: what is rented, as in the price table.
    """

    agent: str = "http://127.0.0.1:9911"
    interval: float = 2.0
    user: str = ""
    password_file: Path | None = None
    ca: Path | None = None
    host: str = "127.0.0.1"
    port: int = 9912
    port_file: Path | None = None
    token_file: Path | None = None
    state: Path = Path("/var/lib/epochcast-node/state.db")
    keep_days: float = 30.0
    gpus: Path | None = None
    node: str = ""
    instance: str = ""
    cloud: str = ""
    region: str = ""

    def __post_init__(self) -> None:
        if not self.host:
            raise InputError(f"host is empty; give an address, as in {NodeConfig.host}, or 0.0.0.0 for all of this machine's")
        if not 0 <= self.port <= 65535:
            raise InputError(f"port is {self.port}; give one from 0 (a free one) to 65535")
        if not 0 < self.keep_days <= 3650:
            raise InputError(f"keep_days is {self.keep_days}; give more than 0, at most 3650 days")
        _ = self.source

    @property
    def source(self) -> AgentSettings:
        """What is said of the agent."""
        return AgentSettings(url=self.agent, **{name: getattr(self, name) for name in _FIELDS_OF_AGENT})


def load(path: Path | None, overrides: Mapping[str, Any]) -> NodeConfig:
    """Return the settings of the TOML file at ``path`` (None: the defaults) with ``overrides`` by name on top.

    Raises InputError for a file that cannot be read, an unknown setting or a value of the wrong type or range.
    """
    settings = {} if path is None else _read(path)
    return NodeConfig(**{**settings, **overrides})


def _read(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also not UTF-8, a number of thousands of digits, thousands of brackets
        raise InputError(f"the configuration {path} is not TOML: {error}") from error
    hints = get_type_hints(NodeConfig)
    for name in table:
        if name not in hints:
            known = ", ".join(field.name for field in fields(NodeConfig))
            raise InputError(f"the configuration {path} has the unknown setting {name!r}; known: {known}")
    return {name: _value(f"the configuration {path}", name, hints[name], value) for name, value in table.items()}


def _value(where: str, name: str, kind: Any, value: Any) -> Any:
    kind = next((choice for choice in get_args(kind) if choice is not type(None)), kind)  # Path | None; TOML has no null
    accepted, wanted = _ACCEPTED[kind]
    if not isinstance(value, accepted) or isinstance(value, bool):
        raise InputError(f"{where} sets {name} to {value!r}; it must be {wanted}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where} sets {name} to {value!r}; it must be finite")
    if isinstance(value, str) and "\0" in value:
        raise InputError(f"{where} sets {name} to {value!r}; it must not hold a NUL character")
    return Path(str(value)) if kind is Path else value


# What a TOML value of each type may be, and how a sentence calls it.
_ACCEPTED: dict[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    Path: ((str,), "a path"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
}
