"""The node analyzer's settings: defaults, then a TOML file, then the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.telemetry.settings import AgentSettings
from epochcast.common.settings_file import check_address
from epochcast.regressor.pipelines import Pipeline

_FIELDS_OF_AGENT = ("interval", "node", "instance", "cloud", "region", "user", "password_file", "ca")


@dataclass(frozen=True)
class NodeConfig:
    """Settings of ``epochcast serve --node``, checked.

    ``agent``: address of this node's agent; ``interval``: seconds between requests to it; ``user``, ``password_file``, ``ca``:
    its basic authentication, and the PEM file to check its certificate with. ``host``, ``port``: address to listen on; port 0:
    any free port; ``hosts``: names that requests may have in ``Host``, and whose pages may write; empty: localhost alone on a
    loopback address, else any name; ``port_file``: file to write the port to. ``token_file``: file with the token that clients
    must send, reloaded when it changes; without it, anyone can send requests. ``state``: SQLite file that keeps the state
    across restarts; ``keep_days``: days to keep epochs. ``pipeline``: how epochs are found. ``gpus``: TOML file with GPUs to
    add to the catalogue. ``node``: name of this machine; empty: its host name. ``instance``, ``cloud``, ``region``: the rented
    instance, as in the price table.
    """

    agent: str = "http://127.0.0.1:9911"
    interval: float = 2.0
    user: str = ""
    password_file: Path | None = None
    ca: Path | None = None
    host: str = "127.0.0.1"
    port: int = 9912
    hosts: tuple[str, ...] = ()
    port_file: Path | None = None
    token_file: Path | None = None
    state: Path = Path("/var/lib/epochcast-node/state.db")
    keep_days: float = 30.0
    pipeline: str = "default"
    gpus: Path | None = None
    node: str = ""
    instance: str = ""
    cloud: str = ""
    region: str = ""

    def __post_init__(self) -> None:
        check_address(self.host, self.port, self.hosts)
        if not 0 < self.keep_days <= 3650:
            raise InputError(f"keep_days is {self.keep_days}; give more than 0, at most 3650 days")
        if self.pipeline not in get_args(Pipeline):
            raise InputError(f"pipeline is {self.pipeline!r}; choose from {', '.join(get_args(Pipeline))}")
        _ = self.source

    @property
    def source(self) -> AgentSettings:
        """What is said of the agent."""
        return AgentSettings(url=self.agent, **{name: getattr(self, name) for name in _FIELDS_OF_AGENT})
