"""Settings of the service: analyzer.toml, checked. `systemd/analyzer.toml` shows every setting with its default."""

from __future__ import annotations

import time
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, IPvAnyNetwork, ValidationError

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.telemetry.settings import (
    AgentSettings,
    DemoSettings,
    FilesSettings,
    NodeSettings,
    PrometheusSettings,
    SourceSettings,
)
from epochcast.common.settings_file import is_local, read_toml, remedy
from epochcast.regressor.pipelines import Pipeline

Name = Annotated[str, Field(max_length=200)]
HostName = Annotated[str, Field(pattern=r"^[a-z0-9_.-]+$")]


_STRICT = ConfigDict(extra="forbid", strict=True, frozen=True)


def _path(**constraints: Any) -> Any:
    # TOML has no paths: texts become them, though all else is taken as it is.
    return Field(strict=False, **constraints)


class LimitSettings(BaseModel):
    """What clients may ask of the service.

    Attributes:
        body_bytes: size of the largest request body.
        requests_at_once: maximum over all clients, half of it from one address; more get 503. A quarter each is reserved for
            requests without a body, with JSON, and with another body.
        seconds: longest time for one answer.
        workers: processes for uploaded traces and white-box backends.
        worker_memory_bytes: address space of each worker process.
    """

    model_config = _STRICT

    body_bytes: Annotated[int, Field(ge=1024, le=2**30)] = 16 * 2**20
    requests_at_once: Annotated[int, Field(ge=1, le=10000)] = 64
    seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    workers: Annotated[int, Field(ge=1, le=64)] = 2
    worker_memory_bytes: Annotated[int, Field(ge=2**30)] = 4 * 2**30


class Settings(BaseModel):
    """All settings.

    Attributes:
        host, port: address to listen on; port 0: any free port.
        hosts: names that requests may have in ``Host``, and whose pages may write; empty: localhost alone on a loopback
            address, else any name.
        port_file: file to write the port to once the service answers requests.
        state: SQLite file that keeps the state across restarts; its folder is created.
        keep_days: days to keep epochs, GPUs and ended jobs.
        token_file: file with the token that clients must send; without it, anyone may send requests.
        proxies: addresses or networks of reverse proxies, whose X-Forwarded-For names the client.
        read_only: refuse requests that set a job's plan.
        pipeline: how epochs are found and predicted, where a request does not say.
        model: folder of a model fitted by ``epochcast fit regressor``; None: the shipped model.
        gpus: TOML file with GPUs to add to the catalogue.
        prices: price table (CSV) to use instead of the shipped table.
        inventory: what is free (CSV: instance, region, free, and usd_per_hour where it costs you something else), read again
            when it changes; None: everything.
        carbon_intensity: of the electricity where jobs run [g CO2e/kWh]; None: the shipped figure of each cloud's region, if
            there is one.
        objective, market, clouds, regions: defaults for recommendations.
        predicted_gpus: GPUs of each job whose predictions are on ``/metrics``, the recommended ones first; the API has all.
        backends: ``[backends.NAME]`` holds the settings of the backend NAME.
        limits: what clients may ask.
        shards: addresses of the processes of this service that watch the sources (``epochcast serve --shard 1/4`` to ``4/4``),
            in this order; empty: it watches the sources itself.
        nodes, agents, prometheus, files: telemetry sources; any number of tables of each.
    """

    model_config = _STRICT

    host: Annotated[str, Field(min_length=1, max_length=255)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 9913
    hosts: list[HostName] = []
    port_file: Path | None = _path(default=None)
    state: Path = _path(default=Path("/var/lib/epochcast-analyzer/state.db"))
    keep_days: Annotated[float, Field(gt=0, le=36500)] = 30.0
    token_file: Path | None = _path(default=None)
    proxies: list[IPvAnyNetwork] = []
    read_only: bool = True
    pipeline: Pipeline = "default"
    model: Path | None = _path(default=None)
    gpus: Path | None = _path(default=None)
    prices: Path | None = _path(default=None)
    inventory: Path | None = _path(default=None)
    carbon_intensity: Annotated[float, Field(gt=0, le=5000)] | None = None
    objective: Literal["cost", "time"] = "cost"
    market: Literal["on-demand", "spot"] = "on-demand"
    clouds: list[Name] = []
    regions: list[Name] = []
    predicted_gpus: Annotated[int, Field(ge=0, le=1000)] = 7
    backends: dict[str, dict[str, Any]] = {}
    limits: LimitSettings = LimitSettings()
    shards: list[Name] = []
    nodes: list[NodeSettings] = []
    agents: list[AgentSettings] = []
    prometheus: list[PrometheusSettings] = []
    files: list[FilesSettings] = []

    @property
    def sources(self) -> list[SourceSettings]:
        """All sources of telemetry."""
        return [*self.nodes, *self.agents, *self.prometheus, *self.files]

    @property
    def watched(self) -> list[SourceSettings]:
        """What the service reads itself: its shards where it has any. InputError for an invalid address."""
        return [NodeSettings(url=url, token_file=self.token_file) for url in self.shards] or self.sources

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the service."""
        return is_local(self.host)


class DemoServiceSettings(Settings):
    """Settings of ``epochcast serve --demo``, whose only source is simulated. ``began``: when it did [unix s]."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    began: float = Field(default_factory=time.time)

    @property
    def sources(self) -> list[SourceSettings]:
        """The simulated one."""
        return [DemoSettings(began=self.began)]


def load_settings(path: Path | None) -> Settings:
    """Return the settings in the TOML file at ``path``, or the defaults.

    Raises:
        InputError: a file that cannot be read, an unknown setting, or a value of the wrong kind or range; in one sentence.
    """
    if path is None:
        return Settings()
    table = read_toml(path)
    try:
        return Settings.model_validate(table)
    except ValidationError as error:
        raise InputError(f"the configuration {path} {_first(error)}") from error


def _first(error: ValidationError) -> str:
    """What is wrong first, and its remedy."""
    first = error.errors()[0]
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in first["loc"]).removeprefix(".")
    seen = f"{first['input']!r:.60}"
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"has the unknown setting {place!r}; {remedy(str(first['loc'][-1]), _known(first['loc'][:-1]))}"
    if first["type"] == "missing":
        return f"lacks {place}, which is required"
    if first["type"] in ("dataclass_type", "model_type"):
        return f"sets {place} to {seen}; it must be a table"
    message = (
        first["msg"].removeprefix("Value error, ").rstrip(".").replace("Input should", "it must").replace("Input is", "it is")
    )
    if first["type"] == "value_error" and isinstance(first["input"], dict):
        return f"has a wrong {place}: {message}"
    return f"sets {place} to {seen}; {message}"


def _known(place: tuple[int | str, ...]) -> list[str]:
    """Settings of the table at ``place``."""
    kind = Settings.model_fields[str(place[0])].annotation if place else Settings
    table: Any = next(iter(get_args(kind)), kind)  # of a list of tables one
    return list(getattr(table, "model_fields", table.__dataclass_fields__ if is_dataclass(table) else ()))
