"""Which source a PATH means: a folder, an object store, or a Prometheus; and what is rented at its nodes."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from epochcast import __version__
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.fleet.gpu_history import Looking, Trace
from epochcast.analyzer.fleet.trace_folder import TraceFolder, version_of
from epochcast.analyzer.fleet.trace_rows import TraceRows
from epochcast.analyzer.service.config import load_settings
from epochcast.analyzer.telemetry import TelemetryError
from epochcast.analyzer.telemetry.gpu_report import GpuDevice
from epochcast.analyzer.telemetry.prometheus import PrometheusSource, Way
from epochcast.analyzer.telemetry.settings import PlaceSettings, PrometheusSettings
from epochcast.analyzer.traces.csv_text import parse_csv, read_text

# Counts up with each change of what a trace's finding is made of: findings of another number are made again.
_ANALYSIS = 5

_COLUMNS = ("node", "instance", "cloud", "region")


def traces_of(
    path: str, looking: Looking, places: Mapping[str, PlaceSettings], *, out: Path, config: Path | None
) -> tuple[str, Iterator[Trace]]:
    """Return what is at ``path``, for people, and its traces.

    Raises:
        InputError: nothing is there, or options do not fit it.
    """
    question = _question(looking)
    if path.startswith(("http://", "https://")):
        if not (math.isfinite(looking.since) and math.isfinite(looking.until)):
            raise InputError("a Prometheus server has no natural range of time: give --from and --to")
        settings = _access(path, config)
        return settings.name, _stored(settings, looking, places, question)
    if config is not None:
        raise InputError(f"--config is for a Prometheus server, but {path!r} is not one; leave it out")
    return path, TraceFolder(path, places=places, question=question, without=out).traces()


def _access(url: str, config: Path | None) -> PrometheusSettings:
    """Access: the configuration's settings for this address, as in the service's."""
    if config is None:
        return PrometheusSettings(url=url)
    configured = load_settings(config).prometheus
    matching = [section for section in configured if section.url.rstrip("/") == url.rstrip("/")]
    if len(matching) != 1:
        seen = ", ".join(section.url for section in configured) or "none"
        raise InputError(f"the configuration {config} must have one [[prometheus]] with url = {url!r}; it has {seen}")
    return matching[0]


def _question(looking: Looking) -> str:
    """Another one where settings would make other findings of the same trace."""
    gpus = [asdict(gpu) for gpu in looking.catalog.values()]
    return version_of(_ANALYSIS, __version__, gpus, looking.since, looking.until)


def read_places(path: Path | None) -> dict[str, PlaceSettings]:
    """Return node -> what is rented there, from a CSV file with the column ``node`` and any of instance, cloud and region.

    Raises:
        InputError: the file cannot be read, has other columns, or names a node twice.
    """
    if path is None:
        return {}
    table = parse_csv(read_text(path), str(path), as_text=_COLUMNS).fillna("")
    unknown = [column for column in table.columns if column not in _COLUMNS]
    if unknown or "node" not in table.columns:
        seen = ", ".join(map(str, table.columns))
        raise InputError(f"{str(path)!r} has the columns {seen}; give node, and any of instance, cloud and region")
    if not table["node"].is_unique:
        raise InputError(
            f"{str(path)!r} names the node {table['node'][table['node'].duplicated()].iloc[0]!r} twice; keep one row"
        )
    rows = table.to_dict("records")
    return {
        str(row["node"]).strip(): PlaceSettings(**{key: str(row.get(key, "")).strip() for key in _COLUMNS[1:]}) for row in rows
    }


# Of a second of telemetry in Parquet, to guess how long a GPU takes: 25 metrics at 10 Hz, zstd.
_BYTES_PER_SECOND = 600


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """The telemetry of one GPU in a database; see `TraceFile`. ``since``, ``until``: unix seconds."""

    name: str
    version: str
    size: int
    device: GpuDevice
    ways: tuple[Way, ...]
    settings: PrometheusSettings
    since: float
    until: float

    @contextmanager
    def opened(self) -> Iterator[tuple[GpuDevice, TraceRows]]:
        """Read it from the database, piece by piece, into a file that is gone afterwards; TelemetryError if that fails."""
        columns = sorted({meaning.column for way in self.ways for meaning in way.meanings.values()})
        schema = pa.schema(dict.fromkeys(["time", *columns], pa.float64()))
        read: set[str] = set()
        with tempfile.TemporaryFile(suffix=".parquet") as file:
            with closing(PrometheusSource(self.settings)) as source, pq.ParquetWriter(file, schema) as writer:
                for rows in source.history((self.device, self.ways), self.since, self.until):
                    read |= rows.values.keys()
                    table = {"time": rows.time, **rows.values}
                    writer.write_table(
                        pa.table(
                            {name: pa.array(table.get(name, [None] * rows.time.size), pa.float64()) for name in schema.names}
                        )
                    )
            file.seek(0)
            yield self.device, TraceRows(file, f"{self.name}.parquet", only=read)


def _stored(
    settings: PrometheusSettings, looking: Looking, places: Mapping[str, PlaceSettings], question: str
) -> Iterator[StoredTrace]:
    """Each GPU of a database; InputError if it does not answer."""
    try:
        with closing(PrometheusSource(settings)) as source:
            gpus = source.gpus_between(looking.since, looking.until)
    except TelemetryError as error:
        raise InputError(str(error)) from error
    for device, ways in gpus:
        if place := places.get(device.node):
            device = replace(device, **place.rented)
        yield StoredTrace(
            name=device.uuid,
            version=version_of(settings.name, vars(device) | {"static": {}}, question),
            size=round((looking.until - looking.since) * _BYTES_PER_SECOND),
            device=device,
            ways=ways,
            settings=settings,
            since=looking.since,
            until=looking.until,
        )
