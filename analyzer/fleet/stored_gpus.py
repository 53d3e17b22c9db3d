"""What there is to analyse in a Prometheus (VictoriaMetrics, Mimir): each GPU of it, between two moments."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError
from ..telemetry import TelemetryError
from ..telemetry.gpu_report import Device
from ..telemetry.prometheus import PrometheusSource, Way
from ..telemetry.prometheus import StoredGpu as Found
from ..telemetry.settings import Place, PrometheusSettings
from .trace_folder import version_of
from .trace_rows import TraceRows

# Of a second of telemetry in Parquet, to guess how long a GPU takes: 25 metrics at 10 Hz, zstd.
_BYTES_PER_SECOND = 600


@dataclass(frozen=True, slots=True)
class StoredGpu:
    """The telemetry of one GPU in a database; see `TraceFile`. ``since``, ``until``: unix seconds."""

    name: str
    version: str
    size: int
    device: Device
    ways: tuple[Way, ...]
    settings: PrometheusSettings
    since: float
    until: float

    @contextmanager
    def opened(self) -> Iterator[tuple[Device, TraceRows]]:
        """Read it from the database, piece by piece, into a file that is gone afterwards; TelemetryError if that fails."""
        columns = sorted({meaning.column for way in self.ways for meaning in way.meanings.values()})
        schema = pa.schema(dict.fromkeys(["time", *columns], pa.float64()))
        read: set[str] = set()
        with tempfile.TemporaryFile(suffix=".parquet") as file:
            with closing(PrometheusSource(self.settings)) as source, pq.ParquetWriter(file, schema) as writer:
                for rows in source.history(Found(self.device, self.ways), self.since, self.until):
                    read |= rows.values.keys()
                    table = {"time": rows.time, **rows.values}
                    writer.write_table(
                        pa.table(
                            {name: pa.array(table.get(name, [None] * rows.time.size), pa.float64()) for name in schema.names}
                        )
                    )
            file.seek(0)
            yield self.device, TraceRows(file, f"{self.name}.parquet", only=read)


class Store:
    """The GPUs of a database between two moments."""

    def __init__(
        self, settings: PrometheusSettings, since: float, until: float, *, places: Mapping[str, Place], question: str
    ) -> None:
        """Take ``since`` and ``until`` in unix seconds, and what is rented by node; ``question`` as in `TraceFolder`."""
        self.name = settings.name
        self._settings, self._since, self._until = settings, since, until
        self._places, self._question = places, question

    def traces(self) -> Iterator[StoredGpu]:
        """Each GPU; InputError if the database does not answer."""
        try:
            with closing(PrometheusSource(self._settings)) as source:
                found = source.gpus_between(self._since, self._until)
        except TelemetryError as error:
            raise InputError(str(error)) from error
        for device, ways in found:
            if place := self._places.get(device.node):
                device = replace(device, instance=place.instance, cloud=place.cloud, region=place.region)
            yield StoredGpu(
                name=device.uuid,
                version=version_of(self.name, vars(device) | {"static": {}}, self._question),
                size=round((self._until - self._since) * _BYTES_PER_SECOND),
                device=device,
                ways=ways,
                settings=self._settings,
                since=self._since,
                until=self._until,
            )
