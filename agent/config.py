"""The agent's settings: defaults, then a TOML file, then the command line."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from .errors import InputError
from .sources import SOURCES

AUTO = "auto"
LONGEST_RETENTION_S = 86400.0
FASTEST = 1e9


@dataclass(frozen=True)
class Config:
    """Settings of the daemon, checked.

    ``source``: a source's name, or ``auto`` (NVML where it works, else the host). ``replay``, ``speed``: the trace to replay
    and how much faster than life. ``host``, ``port``: where to listen, port 0 takes a free one. ``port_file``: written with
    the bound port once samples flow. ``retention``: seconds of samples kept per device (a replayed trace is kept whole).
    ``window``: seconds of the aligned windows on ``/metrics``; five by default, so that a metric that is read once a second
    has five readings in each.
    """

    source: str = AUTO
    replay: Path | None = None
    speed: float = 1.0
    host: str = "127.0.0.1"
    port: int = 9911
    port_file: Path | None = None
    retention: float = 600.0
    window: float = 5.0

    def __post_init__(self) -> None:
        if self.source not in (AUTO, *SOURCES):
            raise InputError(f"unknown source {self.source!r}; choose one of {', '.join((AUTO, *SOURCES))}")
        if self.source == "replay" and self.replay is None:
            raise InputError("source 'replay' has no trace to play; name one with --replay FILE")
        if self.replay is not None and self.source not in (AUTO, "replay"):
            raise InputError(f"a trace to replay ({self.replay}) and the source {self.source!r} exclude each other; drop one")
        if not 0 < self.speed <= FASTEST:
            raise InputError(
                f"speed is {self.speed}; give a number greater than 0 (at most {FASTEST:g}), 1 plays a trace as fast as life"
            )
        if self.speed != 1 and self.replay is None:
            raise InputError(f"speed is {self.speed}, but only a replay has one; name a trace with --replay FILE")
        if not 0 <= self.port <= 65535:
            raise InputError(f"port is {self.port}; give one from 0 (a free one) to 65535")
        if not 1 <= self.retention <= LONGEST_RETENTION_S:
            raise InputError(f"retention is {self.retention} s; give 1 to {LONGEST_RETENTION_S:.0f} seconds")
        if not 1 <= self.window <= 3600:
            raise InputError(f"window is {self.window} s; give 1 to 3600 seconds")

    @property
    def chosen_source(self) -> str:
        """The source asked for: naming a trace is asking for its replay."""
        return "replay" if self.replay is not None else self.source


# What a TOML file may say, and how a sentence calls it.
_ACCEPTED: dict[str, tuple[tuple[type, ...], str]] = {
    "source": ((str,), "text"),
    "replay": ((str,), "a path"),
    "speed": ((int, float), "a number"),
    "host": ((str,), "text"),
    "port": ((int,), "a whole number"),
    "port_file": ((str,), "a path"),
    "retention": ((int, float), "a number of seconds"),
    "window": ((int, float), "a number of seconds"),
}
_PATHS = ("replay", "port_file")


def load(path: Path | None, overrides: dict[str, Any]) -> Config:
    """Return the settings of the TOML file at ``path`` (None: the defaults) with ``overrides`` by name on top.

    Raises InputError for a file that cannot be read, an unknown setting or a value of the wrong type or range.
    """
    settings = {} if path is None else _read(path)
    return Config(**(settings | overrides))


def _read(path: Path) -> dict[str, Any]:
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read the configuration {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the configuration {path} is not TOML: {error}") from error
    for name, value in settings.items():
        if name not in _ACCEPTED:
            known = ", ".join(field.name for field in fields(Config))
            raise InputError(f"the configuration {path} has the unknown setting {name!r}; known: {known}")
        types, wanted = _ACCEPTED[name]
        if not isinstance(value, types) or isinstance(value, bool):
            raise InputError(f"the configuration {path} sets {name} to {value!r}; it must be {wanted}")
        if isinstance(value, str) and "\0" in value:
            raise InputError(f"the configuration {path} sets {name} to {value!r}; it must not hold a NUL character")
    return {name: Path(value) if name in _PATHS else value for name, value in settings.items()}
