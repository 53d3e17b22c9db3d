"""From the settings of telemetry sources to the sources: one line per kind."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from ..errors import InputError
from . import TelemetrySource
from .settings import AgentSettings, FilesSettings, NodeSettings, PrometheusSettings, SourceSettings

# A kind's module is loaded where one is asked for.
SOURCES: dict[type[SourceSettings], tuple[str, str]] = {
    NodeSettings: ("nodes", "NodeSource"),
    AgentSettings: ("agents", "AgentSource"),
    PrometheusSettings: ("prometheus", "PrometheusSource"),
    FilesSettings: ("files", "FilesSource"),
}


def opened(settings: Iterable[SourceSettings]) -> list[TelemetrySource]:
    """Return a source for each of the settings, in the order of `SOURCES`: of a GPU that two tell of, the first is believed.

    Nothing is asked yet. Raises InputError where a file that the settings name cannot be read, and where two of them are one
    source: it is known by its kind and name in the state and in the metrics.
    """
    order = list(SOURCES)
    sources: dict[tuple[str, str], TelemetrySource] = {}
    for one in sorted(settings, key=lambda one: order.index(type(one))):
        module, kind = SOURCES[type(one)]
        if isinstance(one, NodeSettings) and one.every_address:
            kind = "NodeAddresses"
        source: TelemetrySource = getattr(import_module(f".{module}", __package__), kind)(one)
        if (source.kind, source.name) in sources:
            raise InputError(f"the configuration has [[{SOURCES[type(one)][0]}]] {source.name} twice; keep one")
        sources[source.kind, source.name] = source
    return list(sources.values())
