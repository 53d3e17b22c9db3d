"""Samples of GPUs from a time-series database: every one that agents wrote there, else what was scraped of them.

Three ways by which a GPU's telemetry comes into a database are known (`_WAYS`), and of each GPU the best that is there is read:

- **written**: agents push each 10 Hz sample by remote write; a raw read gives them back.
- **scraped**: the agent's page at the scrape interval. The newest value on it is one tick of 150, so what is taken of a ratio
  is the difference of its integral from scrape to scrape, which is its exact mean in between; of the rest the mean over the
  agent's last window (``_avg``).
- **dcgm-exporter**: its names, those up to 4.8 and those since 4.9, at the scrape interval, the newest value.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from epochcast.analyzer.telemetry import Rows, TelemetryError
from epochcast.analyzer.telemetry.endpoint import HttpSource
from epochcast.analyzer.telemetry.gpu_report import GpuDevice, Owner
from epochcast.analyzer.telemetry.prometheus_api import PrometheusApi, TooManySamplesError
from epochcast.analyzer.telemetry.settings import PrometheusSettings
from epochcast.analyzer.telemetry.shard import WHOLE, Shard
from epochcast.analyzer.traces.columns import DCGM_EXPORTER, SCRAPED, WRITTEN, Meaning
from epochcast.analyzer.traces.series import table

#: Seconds between two questions which GPUs there are.
GPUS_S = 10.0
#: Samples in one answer; a long past is read in pieces of about so many, the oldest first.
MOST_SAMPLES = 100_000
FIRST_SPAN_S, SHORTEST_SPAN_S, LONGEST_SPAN_S = 300.0, 10.0, 3600.0
#: A lesser way is queried where the better ones return nothing for so long, and a GPU of which nothing comes only so often.
SILENT_S, REST_S = 300.0, 60.0
#: Rows from which the seconds from row to row are known.
FEWEST_ROWS = 3
#: What only the agent's page has.
_INFO, _PROCESS = "epochcast_gpu_info", "epochcast_gpu_process_memory_bytes"
#: What shows that a GPU is there: some metric that every way has, and that.
_SIGNS = (
    *("epochcast_gpu_dram_active_ratio", "epochcast_gpu_gpu_utilization_ratio", "epochcast_gpu_power_watts"),
    *("epochcast_host_cpu_utilization_ratio", _INFO),
    *(
        name
        for name, meaning in DCGM_EXPORTER.items()
        if meaning.column in ("gpu_utilization", "power", "gr_engine_active", "sm_active")
    ),
)


class Way(NamedTuple):
    """One way by which a GPU's telemetry is there: ``labels`` that choose its series among those of ``meanings``."""

    kind: str
    labels: tuple[tuple[str, str], ...]
    meanings: Mapping[str, Meaning]


_WAYS = ("written", "scraped", "dcgm-exporter")  # best first


StoredGpu = tuple[GpuDevice, tuple[Way, ...]]
"""A GPU of which a database has samples, and the ways by which it has them."""


@dataclass
class _Gpu:
    """What is remembered of a GPU.

    ``read_until``: time of its newest row read. ``heard``, ``queried_at``: when rows last came and when it was last queried
    (monotonic clock). ``span_s``: seconds to ask for at once. ``hertz``: by the way that was read last; 0 before.
    """

    device: GpuDevice
    ways: list[Way]
    read_until: float
    span_s: float
    heard: float
    queried_at: float = -math.inf
    hertz: float = 0.0
    way: str = ""
    owners: tuple[Owner, ...] | None = None


@dataclass
class _Seen:
    """What the series of a GPU show: labels by way and by (instance, job), and those that only the agent's page has."""

    places: dict[str, dict[tuple[str, str], dict[str, str]]] = field(default_factory=lambda: {kind: {} for kind in _WAYS})
    info: dict[str, str] = field(default_factory=dict)


class PrometheusSource(HttpSource):
    """One database; see `TelemetrySource`."""

    kind = "prometheus"

    def __init__(self, settings: PrometheusSettings, shard: Shard = WHOLE) -> None:
        self._api = PrometheusApi(settings)
        super().__init__(settings.name, settings.interval, self._api.endpoint)
        self._settings, self._shard = settings, shard
        self._gpus: dict[str, _Gpu] = {}  # by UUID
        self._gpus_read_at = -math.inf
        self._failure: TelemetryError | None = None

    def poll(self) -> Sequence[Rows]:
        """Give at most one piece of each GPU's past, the oldest that was not read yet; see `TelemetrySource`."""
        now, until = time.monotonic(), time.time() - self._settings.lag
        if now - self._gpus_read_at > GPUS_S or not self._gpus:
            self._read_gpus(until, now)
            self._gpus_read_at = now
        if self._failure is not None:  # next to it the last poll could give rows
            failure, self._failure = self._failure, None
            raise failure
        fresh: list[Rows] = []
        # Who has waited longest comes first: behind a GPU whose samples fail each time the others would never be read.
        for gpu in sorted(self._gpus.values(), key=lambda gpu: gpu.queried_at):
            if now - gpu.heard > SILENT_S and now - gpu.queried_at < REST_S:
                continue
            gpu.queried_at = now
            try:
                rows = self._read(gpu, until, now)
            except TelemetryError as error:
                self._failure = error
                if isinstance(error, TooManySamplesError) or getattr(error, "status", 500) in (400, 413, 422):
                    continue
                break  # the other GPUs would wait as long for nothing
            if rows is not None:
                gpu.heard = now
                fresh.append(rows)
        if self._failure is not None and not fresh:
            failure, self._failure = self._failure, None
            raise failure
        return fresh

    def gpus_between(self, start: float, end: float) -> list[StoredGpu]:
        """The GPUs that have samples between ``start`` and ``end`` [unix s], by their UUIDs; TelemetryError as `poll`."""
        # One question for each sign: the labels of ten thousand GPUs are too many for one answer.
        seen = self._seen(labels for sign in _SIGNS for labels in self._api.labels([sign], start, end))
        known_gpus = ((uuid, self._known(uuid, sighting)) for uuid, sighting in sorted(seen.items()))
        return [known for _, known in known_gpus if known is not None]

    def history(self, stored: StoredGpu, start: float, end: float) -> Iterator[Rows]:
        """The rows of a GPU with times in ``(start, end]`` [unix s], oldest first, by the best way that has any.

        Raises:
            TelemetryError: the database did not answer, or not as expected.
        """
        device, ways = stored
        gpu = _Gpu(device, list(ways), start, FIRST_SPAN_S, heard=0.0)
        while (rows := self._read(gpu, end, now=0.0)) is not None:
            yield rows

    def _read_gpus(self, until: float, now: float) -> None:
        seen = self._seen(self._api.labels(_SIGNS, until - self._settings.history, until))
        owners = self._owners(until)
        for uuid, sighting in seen.items():
            if (known := self._known(uuid, sighting)) is not None and self._shard.has(known[0].node):
                device, ways = known
                gpu = self._gpus.setdefault(uuid, _Gpu(device, [], until - self._settings.history, FIRST_SPAN_S, now))
                gpu.device, gpu.ways, gpu.owners = device, list(ways), owners.get(uuid)
        for uuid in self._gpus.keys() - seen.keys():
            self._gpus[uuid].ways = []  # remembered: back again, it is not read from the beginning

    def _seen(self, series: Iterable[dict[str, str]]) -> dict[str, _Seen]:
        """What the labels of series show of GPUs, by UUID."""
        seen: dict[str, _Seen] = {}
        for labels in series:
            name, place = labels.pop("__name__", ""), (labels.get("instance", ""), labels.get("job", ""))
            uuid = _uuid(labels)
            if not uuid:
                continue
            sighting = seen.setdefault(uuid, _Seen())
            kind = "dcgm-exporter" if name.startswith("DCGM_") else "scraped" if name == _INFO else "written"
            sighting.places[kind][place] = labels
            if name == _INFO:
                sighting.info = labels
        return seen

    def _known(self, uuid: str, sighting: _Seen) -> StoredGpu | None:
        """The GPU of what was seen, and the ways by which its telemetry is there; None where there is none."""
        # What has the same instance and job as an agent's page was scraped with it.
        for place in sighting.places["scraped"]:
            sighting.places["written"].pop(place, None)
        ways = _ways(uuid, sighting.places)
        if not ways:
            return None
        best = sighting.places[ways[0].kind]
        return self._device(uuid, {**sighting.info, **best[min(best)]}, sighting.info), tuple(ways)

    def _device(self, uuid: str, labels: Mapping[str, str], info: Mapping[str, str]) -> GpuDevice:
        place = self._settings
        # dcgm-exporter writes Hostname up to 4.8.2, hostname since.
        node = labels.get(place.node_label, "") if place.node_label else labels.get("Hostname") or labels.get("hostname", "")
        label = labels.get("gpu", "")
        if instance := labels.get("GPU_I_ID", ""):
            label = f"{label}.{instance}"
        return GpuDevice(
            uuid=uuid,
            label=label,
            name=labels.get("name") or labels.get("modelName") or "unknown",
            node=node or _host(labels.get("instance", "")) or "unknown",
            source=info.get("source", "prometheus"),
            simulated="true" in (info.get("simulated"), labels.get("simulated")),
            instance=labels.get(place.instance_label, place.instance),
            cloud=labels.get(place.cloud_label, place.cloud),
            region=labels.get(place.region_label, place.region),
        )

    def _owners(self, now: float) -> dict[str, tuple[Owner, ...]]:
        """Who uses each GPU, where agents that are scraped look for them."""
        owners: dict[str, list[Owner]] = {}
        for labels in self._api.newest([_PROCESS], now):
            pid = labels.get("pid", "")
            if pid.isdecimal():
                texts = {name: labels.get(name, "") for name in ("process", "user", "container", "slurm_job", "pod")}
                owners.setdefault(labels.get("uuid", ""), []).append(Owner(int(pid), **texts))
        return {uuid: tuple(of_gpu) for uuid, of_gpu in owners.items()}

    def _read(self, gpu: _Gpu, until: float, now: float) -> Rows | None:
        """The oldest rows of a GPU that were not read yet, by the best way that has any."""
        for way in gpu.ways:
            rows = self._read_way(gpu, way, until)
            if rows is not None:
                return rows
            if way.kind == gpu.way and now - gpu.heard < SILENT_S:
                return None  # only a pause: another way's samples would be of another kind
        return None

    def _read_way(self, gpu: _Gpu, way: Way, until: float) -> Rows | None:
        start, span = gpu.read_until, gpu.span_s
        # The sample before the first that is new is read too: from it the integral grew.
        before = 0.0 if way.kind == "written" or not gpu.hertz else 2 / gpu.hertz
        while start < until:
            end = min(start + span, until)
            try:
                series = self._api.samples(way.meanings, dict(way.labels), start - before, end)
            except TooManySamplesError:
                if span <= SHORTEST_SPAN_S:
                    raise
                span = gpu.span_s = max(span / 4, SHORTEST_SPAN_S)
                continue
            moments, values = table(series, way.meanings, exact=gpu.device.source != "replay")
            kept = moments > gpu.read_until
            hertz = _hertz(moments, gpu.hertz if way.kind == gpu.way else 0.0)
            if kept.any() and hertz:
                gpu.read_until, gpu.way, gpu.hertz = float(moments[-1]), way.kind, hertz
                gpu.span_s = _span(end - start, sum(part.time.size for part in series))
                columns = {name: column[kept] for name, column in values.items() if not np.isnan(column[kept]).all()}
                return Rows(gpu.device, moments[kept], columns, hertz, gpu.owners)
            if not kept.any():
                start = end
            elif end == until:
                return None  # a row or two: how far apart they are is not yet known
            # Whether nothing is there for long costs the store little to say.
            span = min(2 * span, LONGEST_SPAN_S)
        return None


def _span(seconds: float, samples: int) -> float:
    """Seconds that hold about `MOST_SAMPLES`, from how many some seconds held."""
    return min(max(seconds * MOST_SAMPLES / samples, SHORTEST_SPAN_S), LONGEST_SPAN_S)


def _ways(uuid: str, places: Mapping[str, Mapping[tuple[str, str], Mapping[str, str]]]) -> list[Way]:
    """By which ways a GPU's telemetry is there, best first."""
    meanings = {"written": WRITTEN, "scraped": SCRAPED, "dcgm-exporter": DCGM_EXPORTER}
    ways = []
    for kind in _WAYS:
        for (instance, job), seen in sorted(places[kind].items()):
            # A label that is not there matches the empty text.
            labels = {"instance": instance, "job": job}
            if kind == "dcgm-exporter":
                gpu_uuid, _, part = uuid.partition("/")
                labels |= {"UUID" if "UUID" in seen else "uuid": gpu_uuid, "GPU_I_ID": part}
            else:
                labels["uuid"] = uuid
            ways.append(Way(kind, tuple(labels.items()), meanings[kind]))
    return ways


def _uuid(labels: Mapping[str, str]) -> str:
    """Of a MIG instance dcgm-exporter gives only its GPU's UUID and its number; ``uuid`` is its old label, and the agent's."""
    part = labels.get("GPU_I_ID", "")
    return (labels.get("uuid") or labels.get("UUID", "")) + (f"/{part}" if part else "")


def _host(instance: str) -> str:
    """The host of ``host:port`` or ``[address]:port``; what has no port is a host."""
    host, colon, port = instance.rpartition(":")
    return (host if colon and port.isdecimal() else instance).strip("[]")


def _hertz(moments: np.ndarray[tuple[int], np.dtype[np.float64]], known: float) -> float:
    """Rows per second; what is known already where that is about right, 0 where there are too few rows."""
    if moments.size < FEWEST_ROWS:
        return known
    hertz = 1 / max(1e-3, round(float(np.median(np.diff(moments))), 3))
    return known if known and abs(hertz / known - 1) < 0.2 else hertz
