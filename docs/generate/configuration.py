"""The reference of the settings: dataclasses and pydantic models with the meanings that their docstrings give."""

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

from docstrings import meanings, summary
from markdown import code, head, table
from pydantic import BaseModel
from type_names import type_name

from epochcast.agent.config import Config
from epochcast.analyzer.node.config import NodeConfig
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.telemetry.settings import AgentSettings, FilesSettings, NodeSettings, PrometheusSettings

_TABLES: dict[str, tuple[type, str]] = {
    "nodes": (NodeSettings, "[[nodes]]"),
    "agents": (AgentSettings, "[[agents]]"),
    "prometheus": (PrometheusSettings, "[[prometheus]]"),
    "files": (FilesSettings, "[[files]]"),
}


def page() -> str:
    """docs/reference/configuration.md."""
    introduction = (
        "Each program reads one TOML file, named by `--config`. An unknown setting or a value out of range is refused with\n"
        "one sentence that names it. Paths are texts. Commented files with the defaults:\n"
        "[agent.toml](../../systemd/agent.toml), [node.toml](../../systemd/node.toml),\n"
        "[analyzer.toml](../../systemd/analyzer.toml)."
    )
    parts = [head("Configuration", "For SREs: every setting of the three programs that stay running.", introduction)]
    parts += ["## agent.toml: epochcast-agent", *_tables(Config, "")]
    parts += ["## node.toml: epochcast serve --node", *_tables(NodeConfig, "")]
    parts += ["## analyzer.toml: epochcast serve", *_tables(Settings, "")]
    for kind, title in _TABLES.values():
        parts += [f"### {title}", summary(kind), _rows(kind)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _tables(kind: type, prefix: str) -> Iterator[str]:
    """The settings of a table, then those of the tables in it."""
    yield _rows(kind, prefix)
    for name, hint in get_type_hints(kind).items():
        if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, BaseModel)):
            yield f"### [{name}]"
            yield summary(hint)
            yield from _tables(hint, f"{prefix}{name}.")


def _rows(kind: type, prefix: str = "") -> str:
    told = meanings(kind)
    rows = []
    for name, hint, default in _settings(kind):
        if isinstance(hint, type) and (is_dataclass(hint) or issubclass(hint, BaseModel)):
            continue
        meaning = told.get(name)
        if meaning is None:
            raise SystemExit(f"{kind.__module__}.{kind.__name__} says nothing of its setting {name!r}: add it to the docstring")
        accepted = f"tables, below: `{_TABLES[name][1]}`" if name in _TABLES and kind is Settings else type_name(hint)
        rows.append([code(prefix + name), accepted, _default(default), meaning])
    return table(["setting", "type", "default", "meaning"], rows)


def _settings(kind: type) -> Iterator[tuple[str, Any, Any]]:
    """Name, type and default of each setting; MISSING where it must be given."""
    hints = get_type_hints(kind, include_extras=True)
    if issubclass(kind, BaseModel):
        for name, info in kind.model_fields.items():
            yield name, hints[name], MISSING if info.is_required() else info.get_default(call_default_factory=True)
    else:
        for one in fields(kind):
            yield one.name, hints[one.name], one.default if one.default_factory is MISSING else one.default_factory()


def _default(value: Any) -> str:
    if value is MISSING:
        return "required"
    if value is None or value in ("", {}, []):
        return ""
    if isinstance(value, bool):
        return code(str(value).lower())
    return code(f"{value:g}" if isinstance(value, float) else str(value))
