"""The agent's settings: defaults, then a TOML file, then the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from epochcast.agent.catalog import PARTS, Metric, Part, Tier, catalog, read_metrics
from epochcast.agent.sources import SOURCES
from epochcast.common.errors import InputError
from epochcast.common.settings_file import check_address, whole_url

AUTO = "auto"
OFF = "off"
# `compat` -> the last of dcgm-exporter's versions that has these names.
COMPATIBLE = {"dcgm-exporter": "4.8", "dcgm-exporter=4.8": "4.8", "dcgm-exporter=4.9": "4.9"}
TIERS = ("fast", "slow", "rare", OFF)
LONGEST_RETENTION_S = 86400.0
FASTEST = 1e9


@dataclass(frozen=True)
class Web:
    """HTTP access to the agent.

    ``certificate`` and ``key``: PEM files that turn TLS on. ``client_ca``: PEM file of the authorities that must have signed
    a client's certificate. ``users``: file of ``name:bcrypt-hash`` lines (``htpasswd -B``) that turns basic authentication on.
    ``connections``: maximum number of requests answered at once; more wait for a moment, then are refused.
    """

    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    users: Path | None = None
    connections: int = 8

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise InputError("web.certificate and web.key belong together; give both or neither")
        if self.client_ca is not None and self.certificate is None:
            raise InputError("web.client_ca needs TLS; give web.certificate and web.key too")
        if not 1 <= self.connections <= 1000:
            raise InputError(f"web.connections is {self.connections}; give 1 to 1000")


@dataclass(frozen=True)
class Dcgm:
    """How to reach DCGM.

    ``address``: ``host:port`` or ``unix:/path`` of a standalone host engine. ``embedded``: run the engine inside the agent
    instead (before Hopper this needs root). ``bindings``: folder of NVIDIA's Python bindings; None searches $DCGM_BINDINGS and
    the folders of DCGM's packages.
    """

    address: str = "127.0.0.1:5555"
    embedded: bool = False
    bindings: Path | None = None

    def __post_init__(self) -> None:
        if self.bindings is not None and not self.bindings.is_dir():
            raise InputError(f"dcgm.bindings is {str(self.bindings)!r}, which is not a folder; name the folder of pydcgm.py")


@dataclass(frozen=True)
class Push:
    """Remote write to a Prometheus-compatible store.

    ``url``: the full address to write to, as in ``http://prometheus:9090/api/v1/write``; empty: off. ``interval``: seconds
    of samples per request. ``queue``: maximum number of samples that wait while the store does not answer; beyond it the
    oldest are dropped and counted. ``quantise``: round ratios to 1/1024, which a time-series database stores four times
    smaller. ``user`` and ``password_file``: basic authentication; ``token_file``: a bearer token. ``ca``: PEM file to check
    the store's certificate with. ``labels``: added to every series.
    """

    url: str = ""
    interval: float = 2.0
    queue: int = 2_000_000
    quantise: bool = False
    user: str = ""
    password_file: Path | None = None
    token_file: Path | None = None
    ca: Path | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.url and whole_url(self.url) is None:
            raise InputError(f"push.url is {self.url!r}; give the full address, as in http://prometheus:9090/api/v1/write")
        if not 0.5 <= self.interval <= 60:
            raise InputError(f"push.interval is {self.interval} s; give 0.5 to 60 seconds")
        if not 1000 <= self.queue <= 100_000_000:
            raise InputError(f"push.queue is {self.queue} samples; give 1000 to 100000000")
        if bool(self.user) != (self.password_file is not None):
            raise InputError("push.user and push.password_file belong together; give both or neither")
        if self.user and self.token_file is not None:
            raise InputError("push.user and push.token_file exclude each other; drop one")
        for name, value in self.labels.items():
            if not isinstance(value, str) or not name.isidentifier() or not name.isascii() or name.startswith("__"):
                raise InputError(
                    f"push.labels has {name} = {value!r}; give label names of letters, digits and _, and text values"
                )


@dataclass(frozen=True)
class Config:
    """Settings of the daemon, checked.

    ``source``: a source's name, or ``auto`` (each GPU's best source, else the host). ``replay``: the trace to replay, or a
    folder of traces. ``speed``: its speed, relative to real time. ``pid``: a process to measure with its descendants, in
    the source ``host``; 0: none; ``cgroup``: the folder of a cgroup, to measure its processes. ``host``, ``port``: address
    to listen on; port 0: any free port. ``hosts``: names that requests may have in ``Host``, and whose pages may write; empty:
    localhost alone on a loopback address, else any name. ``port_file``: file to write the port to once samples flow.
    ``retention``: seconds of samples kept per device (a replayed trace is kept whole). ``window``: seconds of the aligned
    windows on ``/metrics``; five by default, so a metric that is read once a second has five readings in each. ``tick_budget``:
    CPU seconds per GPU that a tick's readings may take before the rate steps down. ``compat``: ``dcgm-exporter=4.8`` or
    ``dcgm-exporter=4.9`` adds its names to ``/metrics``. ``processes``: seconds between checks of the processes on each GPU; 0:
    never; ``process_users``: whether to export their users. ``log_format``: ``text`` or ``json``. ``tiers``: tier by metric
    name, instead of the catalogue's; ``off`` disables it. ``families``: by metric name (``*``: all others), what ``/metrics``
    shows of it instead of the catalogue's choice, among ``last``, ``avg``, ``min``, ``max`` and ``seconds``, or ``[]`` for
    nothing. ``gpus``: how many GPUs this machine has; 0: as many as the PCI bus shows. ``exporter``: page of a dcgm-exporter.
    """

    source: str = AUTO
    replay: Path | None = None
    speed: float = 1.0
    pid: int = 0
    cgroup: Path | None = None
    host: str = "127.0.0.1"
    port: int = 9911
    hosts: tuple[str, ...] = ()
    port_file: Path | None = None
    retention: float = 600.0
    window: float = 5.0
    tick_budget: float = 0.005
    compat: str = ""
    processes: float = 0.0
    process_users: bool = False
    log_format: str = "text"
    exporter: str = "http://127.0.0.1:9400/metrics"
    tiers: Mapping[str, str] = field(default_factory=dict)
    families: Mapping[str, Sequence[str]] = field(default_factory=dict)
    gpus: int = 0
    web: Web = field(default_factory=Web)
    dcgm: Dcgm = field(default_factory=Dcgm)
    push: Push = field(default_factory=Push)

    def __post_init__(self) -> None:
        if self.source not in (AUTO, *SOURCES):
            raise InputError(f"unknown source {self.source!r}; choose one of {', '.join((AUTO, *SOURCES))}")
        if self.source == "replay" and self.replay is None:
            raise InputError("source 'replay' has no trace to play; name one with --replay FILE")
        if self.replay is not None and self.source not in (AUTO, "replay"):
            raise InputError(f"a trace to replay ({self.replay}) and the source {self.source!r} exclude each other; drop one")
        if not 0 < self.speed <= FASTEST:
            raise InputError(
                f"speed is {self.speed}; give a number greater than 0 (at most {FASTEST:g}), 1 plays a trace in real time"
            )
        if self.speed != 1 and self.replay is None:
            raise InputError(f"speed is {self.speed}, but speed applies only to a replay; name a trace with --replay FILE")
        if self.pid < 0:
            raise InputError(f"pid is {self.pid}; give the number of a process, or 0 for none")
        if self.pid and self.cgroup is not None:
            raise InputError(f"pid ({self.pid}) and cgroup ({self.cgroup}) exclude each other; drop one")
        check_address(self.host, self.port, self.hosts)
        if not 1 <= self.retention <= LONGEST_RETENTION_S:
            raise InputError(f"retention is {self.retention} s; give 1 to {LONGEST_RETENTION_S:.0f} seconds")
        if not 1 <= self.window <= 3600:
            raise InputError(f"window is {self.window} s; give 1 to 3600 seconds")
        if not 1e-4 <= self.tick_budget <= 0.1:
            raise InputError(f"tick_budget is {self.tick_budget} s per GPU; give 0.0001 to 0.1 seconds")
        if self.compat and self.compat not in COMPATIBLE:
            raise InputError(f"compat is {self.compat!r}; give one of {', '.join(COMPATIBLE)}")
        if self.processes and not 1 <= self.processes <= 3600:
            raise InputError(
                f"processes is {self.processes} s; give 0 (off) or 1 to 3600 seconds: the driver is slow to answer"
            )
        if self.log_format not in ("text", "json"):
            raise InputError(f"log_format is {self.log_format!r}; choose text or json")
        if whole_url(self.exporter) is None:
            raise InputError(f"exporter is {self.exporter!r}; give the full address, as in {Config.exporter}")
        for name, tier in self.tiers.items():
            if name not in (known := read_metrics()):
                raise InputError(f"tiers names the unknown metric {name!r}; known: {', '.join(known)}")
            if tier not in TIERS:
                raise InputError(f"tiers sets {name} to {tier!r}; choose one of {', '.join(TIERS)}")
        for name, parts in self.families.items():
            if name not in ("*", *catalog()):
                raise InputError(f"families names the unknown metric {name!r}; known: *, {', '.join(catalog())}")
            if not isinstance(parts, (list, tuple)) or not set(parts) <= set(PARTS):
                raise InputError(f"families sets {name} to {parts!r}; give a list of some of {', '.join(PARTS)}")
        if not 0 <= self.gpus <= 1024:
            raise InputError(f"gpus is {self.gpus}; give the number of GPUs of this machine, or 0 to count them on the PCI bus")

    @property
    def process_root(self) -> int | Path | None:
        """The process or cgroup whose use of the machine is measured, None for none."""
        return self.cgroup or self.pid or None

    @property
    def chosen_source(self) -> str:
        """The requested source: naming a trace requests its replay."""
        return "replay" if self.replay is not None else self.source

    def shown(self, metric: Metric) -> tuple[Part, ...]:
        """Return which of the families that a metric can have are on ``/metrics``."""
        chosen = self.families.get(metric.name, self.families.get("*", metric.shown))
        return tuple(part for part in metric.parts if part in chosen)

    def metrics(self) -> dict[str, Metric]:
        """Return the metrics to read, with ``tiers`` applied and without those that are off."""
        tiers = {name: cast(Tier, self.tiers.get(name, metric.tier)) for name, metric in read_metrics().items()}
        return {name: replace(metric, tier=tiers[name]) for name, metric in read_metrics().items() if tiers[name] != OFF}
