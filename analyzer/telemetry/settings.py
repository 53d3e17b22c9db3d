"""What is said of a telemetry source in a configuration, checked: one dataclass per kind; and the sources of them.

The service's configuration (``[[agents]]``, ``[[nodes]]``, ``[[prometheus]]``, ``[[files]]``) and a node's are made of these.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.telemetry import TelemetrySource
from epochcast.analyzer.telemetry.shard import WHOLE, Shard
from epochcast.common.settings_file import whole_url

_STRICT = {"extra": "forbid"}  # for pydantic, where a configuration is read by it: an unknown key is a mistake
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, kw_only=True)
class PlaceSettings:
    """What is rented where the GPUs of a source are; empty where a label says so, or nobody.

    ``instance``: name of its type, as in the price table (``p4d.24xlarge``). ``cloud``, ``region``: where, as in that table.
    """

    instance: str = ""
    cloud: str = ""
    region: str = ""

    @property
    def rented(self) -> dict[str, Any]:
        """The same as fields of a `GpuDevice`."""
        return {"instance": self.instance, "cloud": self.cloud, "region": self.region}


@dataclass(frozen=True, kw_only=True)
class Access:
    """An HTTP address and its authentication.

    ``url``: address with scheme and host, and the path of the API, if any. ``user`` and ``password_file``: basic
    authentication; ``token_file``: a bearer token; both files are read again at each request. ``ca``: PEM file to check the
    server's certificate with.
    """

    url: str
    user: str = ""
    password_file: Path | None = None
    token_file: Path | None = None
    ca: Path | None = None

    def __post_init__(self) -> None:
        parts = whole_url(self.url)
        if parts is None or parts.query or parts.fragment:
            raise InputError(f"url is {self.url!r}; give a full address, as in http://gpu-node-1:9911")
        if parts.username is not None:
            raise InputError("url holds a user name; give user and password_file instead")
        if bool(self.user) != (self.password_file is not None):
            raise InputError(f"of {self.url}: user and password_file belong together; give both or neither")
        if self.user and self.token_file is not None:
            raise InputError(f"of {self.url}: user and token_file exclude each other; drop one")

    @property
    def host(self) -> str:
        """The host's name; this machine's own where the address is its loopback."""
        host = urlsplit(self.url).hostname or ""
        return socket.gethostname() if host in _LOOPBACK else host


@dataclass(frozen=True, kw_only=True)
class AgentSettings(PlaceSettings, Access):
    """An ``epochcast-agent``.

    ``interval``: seconds between two polls. ``node``: what its machine is called; empty: the address's host.
    """

    __pydantic_config__: ClassVar = _STRICT
    interval: float = 2.0
    node: str = ""

    def __post_init__(self) -> None:
        Access.__post_init__(self)
        _check_interval(self.url, self.interval, 60.0)


@dataclass(frozen=True, kw_only=True)
class NodeSettings(PlaceSettings, Access):
    """A node's analyzer (``epochcast serve --node``).

    ``interval``: seconds between two polls. ``every_address``: each address of the host name is a node analyzer, as for a
    headless Kubernetes Service. A node's own ``instance``, ``cloud`` and ``region`` take precedence.
    """

    __pydantic_config__: ClassVar = _STRICT
    interval: float = 5.0
    every_address: bool = False

    def __post_init__(self) -> None:
        Access.__post_init__(self)
        if self.every_address and not self.url.startswith("http://"):
            raise InputError(
                f"of {self.url}: every_address polls each address by its number, which no certificate names; give http, "
                "or a table for each node"
            )
        _check_interval(self.url, self.interval, 600.0)


@dataclass(frozen=True, kw_only=True)
class PrometheusSettings(PlaceSettings, Access):
    """A server with Prometheus' HTTP API: Prometheus, VictoriaMetrics, Mimir.

    ``interval``: seconds between two polls. ``history``: seconds of history to read after a start. ``lag``: seconds that
    a sample may arrive late; newer samples are read later. ``tenant``: Mimir's tenant (``X-Scope-OrgID``). ``matcher``:
    label -> value that all series must have, as in ``{cluster = "a"}``. ``node_label``, ``instance_label``, ``region_label``,
    ``cloud_label``: labels with a GPU's machine and the rented instance; without ``node_label`` the machine is the host of
    ``instance``.
    """

    __pydantic_config__: ClassVar = _STRICT
    interval: float = 5.0
    history: float = 21_600.0
    lag: float = 5.0
    tenant: str = ""
    matcher: dict[str, str] = field(default_factory=dict)
    node_label: str = ""
    instance_label: str = ""
    cloud_label: str = ""
    region_label: str = ""

    @property
    def name(self) -> str:
        """Its name: several sources may share one address, by tenant or labels."""
        labels = ", ".join(f'{label}="{value}"' for label, value in sorted(self.matcher.items()))
        return self.url + (f" {{{labels}}}" if labels else "") + (f" of tenant {self.tenant}" if self.tenant else "")

    def __post_init__(self) -> None:
        Access.__post_init__(self)
        _check_interval(self.url, self.interval, 600.0)
        if not 60 <= self.history <= 30 * 86_400:
            raise InputError(f"of {self.url}: history is {self.history} s; give 60 s to 30 days")
        if not 0 <= self.lag <= 3600:
            raise InputError(f"of {self.url}: lag is {self.lag} s; give 0 to 3600 seconds")
        for name in (*self.matcher, self.node_label, self.instance_label, self.cloud_label, self.region_label):
            if name and not (name.isidentifier() and name.isascii()):
                raise InputError(f"of {self.url}: {name!r} is not a label name; use letters, digits and _")


@dataclass(frozen=True, kw_only=True)
class FilesSettings(PlaceSettings):
    """Trace files, each of one GPU.

    ``path``: pattern for the files, with ``*`` for any part of a name, ``**`` for any folders. ``interval``: seconds between
    two searches for new or changed files.
    """

    __pydantic_config__: ClassVar = _STRICT
    path: str
    interval: float = 10.0

    def __post_init__(self) -> None:
        if not self.path or "\0" in self.path:
            raise InputError(f"path is {self.path!r}; name trace files, as in /data/traces/*.parquet")
        _check_interval(self.path, self.interval, 3600.0)


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """The recordings that ``epochcast serve --demo`` plays, which no configuration names. ``began``: when it did [unix s]."""

    began: float


SourceSettings = AgentSettings | NodeSettings | PrometheusSettings | FilesSettings | DemoSettings


def _check_interval(of: str, interval: float, longest: float) -> None:
    if not 0.2 <= interval <= longest:
        raise InputError(f"of {of}: interval is {interval} s; give 0.2 to {longest:.0f} seconds")


# A kind's module is loaded when it is used.
SOURCES: dict[type[SourceSettings], tuple[str, str]] = {
    NodeSettings: ("nodes", "NodeSource"),
    AgentSettings: ("agents", "AgentSource"),
    PrometheusSettings: ("prometheus", "PrometheusSource"),
    FilesSettings: ("files", "FilesSource"),
    DemoSettings: (".demo.player", "DemoSource"),
}


def opened(settings: Iterable[SourceSettings], shard: Shard = WHOLE) -> list[TelemetrySource]:
    """Return a source for each of the settings, in the order of `SOURCES`: of a GPU that two report, the first is believed.

    Of what is one node only those of the shard; a source of several nodes gives those of the shard.

    Nothing is polled yet. Raises InputError where a file that the settings name cannot be read, and where two of them are one
    source: it is known by its kind and name in the state and in the metrics.
    """
    order = list(SOURCES)
    sources: dict[tuple[str, str], TelemetrySource | None] = {}
    for section in sorted(settings, key=lambda section: order.index(type(section))):
        module, kind = SOURCES[type(section)]
        if isinstance(section, NodeSettings) and section.every_address:
            kind = "NodeAddresses"
        make = getattr(import_module(f".{module}", __package__), kind)
        node = _node_of(section)
        source: TelemetrySource = make(section, shard) if node is None else make(section)
        if (source.kind, source.name) in sources:
            raise InputError(f"the configuration has [[{SOURCES[type(section)][0]}]] {source.name} twice; keep one")
        sources[source.kind, source.name] = source if node is None or shard.has(node) else None
    return [source for source in sources.values() if source is not None]


def _node_of(section: SourceSettings) -> str | None:
    """The node that a source is of; None where it is of several."""
    if isinstance(section, AgentSettings):
        return section.node or urlsplit(section.url).hostname
    return urlsplit(section.url).hostname if isinstance(section, NodeSettings) and not section.every_address else None
