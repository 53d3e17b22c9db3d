"""The node analyzer's settings: defaults, then a TOML file, then the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...common.settings_file import check_address
from ..errors import InputError
from ..telemetry.settings import AgentSettings

_FIELDS_OF_AGENT = ("interval", "node", "instance", "cloud", "region", "user", "password_file", "ca")


@dataclass(frozen=True)
class NodeConfig:
    """Settings of ``epochcast serve --node``, checked.

    ``agent``: address of the agent beside it; ``interval``: seconds between two questions to it; ``user``, ``password_file``,
    ``ca``: its basic authentication, and the PEM file to check its certificate with. ``host``, ``port``: where to listen, port
    0 takes a free one; ``port_file``: written with the bound port. ``token_file``: holds the token that every client must
    bear, read anew when it changes; without it anybody may ask. ``state``: file for what must survive a restart;
    ``keep_days``: of epochs in it. ``gpus``: TOML file of GPUs that the catalogue lacks. ``node``: what this machine is called,
    empty for its host name. ``instance``, ``cloud``, ``region``: what is rented, as in the price table.
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
        check_address(self.host, self.port)
        if not 0 < self.keep_days <= 3650:
            raise InputError(f"keep_days is {self.keep_days}; give more than 0, at most 3650 days")
        _ = self.source

    @property
    def source(self) -> AgentSettings:
        """What is said of the agent."""
        return AgentSettings(url=self.agent, **{name: getattr(self, name) for name in _FIELDS_OF_AGENT})
