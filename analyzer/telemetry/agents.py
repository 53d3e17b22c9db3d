"""Samples of an ``epochcast-agent``: every row once, in pieces, by a cursor in the rows' own time."""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.telemetry import Rows, TelemetryError
from epochcast.analyzer.telemetry.endpoint import Endpoint, HttpSource, RefusedError
from epochcast.analyzer.telemetry.gpu_report import GpuDevice, Owner
from epochcast.analyzer.telemetry.settings import AgentSettings

GPUS, SAMPLES, PROCESSES = "/api/v1/gpus", "/api/v1/samples", "/api/v1/processes"
GPUS_SCHEMA, SAMPLES_SCHEMA, PROCESSES_SCHEMA = "epochcast.gpus/v1", "epochcast.samples/v1", "epochcast.processes/v1"

#: Seconds between two requests for the GPUs, for their processes, and for those where the agent does not look for them.
GPUS_S, PROCESSES_S, NO_PROCESSES_S = 30.0, 5.0, 60.0
#: GPUs whose newest rows are within so many seconds of each other are read in one request.
TOGETHER_S = 10.0
#: Bytes of rows taken in one request; what is left is read at the next poll. An hour of a GPU has about 5 MB.
MOST_ROW_BYTES = 32 * 2**20
MOST_HEAD_BYTES = 2**16
#: After so long without new rows a GPU is checked for a clock that was set back.
SILENT_S = 60.0
#: What agents sample at unless they say otherwise.
USUAL_INTERVAL_S = 0.1
_NPY_MAGIC = b"\x93NUMPY\x03\x00"


@dataclass
class _Gpu:
    """What is remembered of a GPU.

    ``read_until``: time of its newest row read; ``heard``: when that was, by the monotonic clock; ``metric``: one that it has.
    """

    device: GpuDevice
    hertz: float
    lag_s: float
    read_until: float = -math.inf
    heard: float = 0.0
    metric: str = ""


class AgentSource(HttpSource):
    """One agent; see `TelemetrySource`.

    The first poll gives all that the agent's rings hold. A GPU that appears later is noticed within half a minute; its ring
    holds more than that. Rows may come late: they are taken once they are older than the agent's own word for that (``lag_s``).
    """

    kind = "agent"

    def __init__(self, settings: AgentSettings) -> None:
        super().__init__(settings.url, settings.interval, Endpoint("agent", settings))
        self._settings = settings
        self._gpus: dict[str, _Gpu] = {}  # by UUID
        self._present: tuple[str, ...] = ()  # UUIDs that the agent reads now, each label once
        self._gpus_read_at = self._processes_read_at = -math.inf
        self._processes_s = PROCESSES_S

    def poll(self) -> Sequence[Rows]:
        """Give the rows that are new; see `TelemetrySource`."""
        now = time.monotonic()
        if now - self._gpus_read_at > GPUS_S or not self._present:
            self._read_gpus(now)
        owners = self._owners(now)
        rows: list[Rows] = []
        try:
            for uuids in self._groups():
                rows += [self._settled(part, owners) for part in self._read_rows(uuids)]
        except TelemetryError as error:
            if isinstance(error, RefusedError) and error.status == 400:
                self._gpus_read_at = -math.inf  # a GPU has gone since it was listed
            if not rows:  # what was read must not be lost; the failure will be met again
                raise
        fresh = [part for part in rows if part.time.size]
        for part in fresh:
            gpu = self._gpus[part.device.uuid]
            gpu.read_until, gpu.heard, gpu.metric = float(part.time[-1]), now, next(iter(part.values), "")
        self._look_after_silent(now)
        return fresh

    def _read_gpus(self, now: float) -> None:
        answer = self._endpoint.json(GPUS, schema=GPUS_SCHEMA)
        labels: dict[str, str] = {}
        place = self._settings
        try:
            for row in answer["gpus"]:
                # A GPU that is gone comes after the present GPUs, and its name may now belong to another.
                if labels.setdefault(str(row["label"]), str(row["uuid"])) != row["uuid"]:
                    continue
                device = GpuDevice(
                    uuid=str(row["uuid"]),
                    label=str(row["label"]),
                    name=str(row["name"]),
                    node=place.node or place.host,
                    source=str(row["source"]),
                    simulated=bool(row["simulated"]),
                    static=dict(row["static"]),
                    **place.rented,
                )
                lag_s, interval_s = float(row["lag_s"]), row.get("interval_s")
                gpu = self._gpus.setdefault(device.uuid, _Gpu(device, 1 / USUAL_INTERVAL_S, lag_s, heard=now))
                gpu.device, gpu.lag_s = device, lag_s
                if interval_s:  # null of a GPU that is gone
                    gpu.hertz = 1 / float(interval_s)
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
            raise TelemetryError(f"agent {self.name}{GPUS} does not list its GPUs in an agent's format: {error!r}") from error
        # One that is gone is remembered: back again, it is not read from the beginning.
        self._present, self._gpus_read_at = tuple(labels.values()), now

    def _groups(self) -> Iterator[list[str]]:
        """The GPUs to ask for together: those that were read about as far, for ``from`` is one for all."""
        by_cursor = sorted(self._present, key=lambda uuid: self._gpus[uuid].read_until)
        group: list[str] = []
        for uuid in by_cursor:
            if group and not self._gpus[uuid].read_until - self._gpus[group[0]].read_until <= TOGETHER_S:
                yield group
                group = []
            group.append(uuid)
            if self._gpus[uuid].read_until == -math.inf:  # all that its ring holds may be much
                yield group
                group = []
        if group:
            yield group

    def _read_rows(self, uuids: Sequence[str], more: Sequence[tuple[str, str]] = ()) -> list[Rows]:
        query = [("format", "npy"), *(("gpu", uuid) for uuid in uuids), *more]
        since = min(self._gpus[uuid].read_until for uuid in uuids)
        if math.isfinite(since):
            query.append(("from", repr(since)))
        answered = []
        with self._endpoint.stream(SAMPLES, query) as pieces:
            try:
                table = _npy(pieces, MOST_ROW_BYTES)
                names = [name for name in table.dtype.names or () if name not in ("gpu", "time")]
                for gpu in (self._gpus[uuid] for uuid in uuids):
                    rows = table[table["gpu"] == gpu.device.label]
                    values = {name: rows[name].astype(np.float64) for name in names}
                    answered.append(Rows(gpu.device, rows["time"].astype(np.float64), values, gpu.hertz))
            except (ValueError, TypeError, SyntaxError, KeyError) as error:
                raise TelemetryError(f"agent {self.name}{SAMPLES} does not answer with rows in NPY: {error}") from error
        return answered

    def _settled(self, rows: Rows, owners: Mapping[str, tuple[Owner, ...]] | None) -> Rows:
        """The rows that are new and will not change, without metrics that the GPU does not have."""
        gpu = self._gpus[rows.device.uuid]
        finite = np.isfinite(rows.time)
        newest = rows.time[finite].max(initial=-math.inf)
        kept = finite & (rows.time > gpu.read_until) & (rows.time <= newest - gpu.lag_s)
        values = {name: column[kept] for name, column in rows.values.items()}
        present = {name: column for name, column in values.items() if not np.isnan(column).all()}
        of_gpu = None if owners is None else owners.get(rows.device.uuid, ())
        return Rows(rows.device, rows.time[kept], present, rows.hertz, of_gpu)

    def _owners(self, now: float) -> dict[str, tuple[Owner, ...]] | None:
        """Who uses each GPU; None where the agent was not queried this time, or does not report it."""
        if now - self._processes_read_at < self._processes_s:
            return None
        self._processes_read_at = now
        try:
            answer = self._endpoint.json(PROCESSES, schema=PROCESSES_SCHEMA)
            by_gpu: dict[str, list[Owner]] = {}
            for row in answer["processes"]:
                texts = {name: str(row[name]) for name in ("process", "user", "container", "slurm_job", "pod")}
                by_gpu.setdefault(str(row["uuid"]), []).append(Owner(int(row["pid"]), **texts))
        except RefusedError as error:
            self._processes_s = NO_PROCESSES_S if error.status == 404 else PROCESSES_S
            return None
        except (TelemetryError, KeyError, TypeError, ValueError):
            return None  # samples matter more
        self._processes_s = PROCESSES_S
        return {uuid: tuple(owners) for uuid, owners in by_gpu.items()}

    def _look_after_silent(self, now: float) -> None:
        """Where a GPU is silent because the agent's clock was set back, go on with what it says now.

        A replay that was started again is no such case: it plays what was read already.
        """
        for uuid in self._present:
            gpu = self._gpus[uuid]
            if now - gpu.heard < SILENT_S or gpu.device.source == "replay" or not gpu.metric:
                continue
            gpu.heard = now
            try:
                before, gpu.read_until = gpu.read_until, -math.inf
                (rows,) = self._read_rows([uuid], [("metric", gpu.metric)])
                newest = rows.time.max(initial=-math.inf)
            except TelemetryError:
                newest = -math.inf
            gpu.read_until = float(newest) if -math.inf < newest < before - TOGETHER_S else before


def _npy(pieces: Iterable[bytes], most: int) -> NDArray[np.void]:
    """Return the rows of an NPY file (version 3.0) of a structured array, the first ``most`` bytes of them at most.

    Raises ValueError where it is none, or ends before its last row.
    """
    held = bytearray()
    stream = iter(pieces)

    def have(size: int) -> None:
        while len(held) < size:
            held.extend(next(stream, b"") or _broken_off(len(held), size))

    have(len(_NPY_MAGIC) + 4)
    if not held.startswith(_NPY_MAGIC):
        raise ValueError(f"it begins with {bytes(held[:8])!r}")
    body = len(_NPY_MAGIC) + 4 + int.from_bytes(held[len(_NPY_MAGIC) : len(_NPY_MAGIC) + 4], "little")
    if body > MOST_HEAD_BYTES:
        raise ValueError(f"its head has {body} bytes")
    have(body)
    head: dict[str, Any] = ast.literal_eval(held[len(_NPY_MAGIC) + 4 : body].decode())
    dtype = np.dtype(head["descr"])
    (count,) = head["shape"]
    if dtype.hasobject or not {"gpu", "time"} <= set(dtype.names or ()) or not isinstance(count, int) or count < 0:
        raise ValueError(f"it holds {count} rows of {dtype}")
    count = min(count, max(1, most // dtype.itemsize))
    have(body + count * dtype.itemsize)
    return np.frombuffer(held, dtype, count, offset=body)


def _broken_off(size: int, wanted: int) -> bytes:
    raise ValueError(f"it ends after {size} of at least {wanted} bytes")
