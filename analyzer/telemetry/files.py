"""Trace files as telemetry: each file a GPU, or several in a log, given once, and again when it changes."""

from __future__ import annotations

import glob
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.telemetry import ENDED_S, Rows, TelemetryError, TelemetrySource
from epochcast.analyzer.telemetry.gpu_report import GpuDevice
from epochcast.analyzer.telemetry.settings import FilesSettings
from epochcast.analyzer.telemetry.shard import WHOLE, Shard

if TYPE_CHECKING:
    from epochcast.analyzer.traces.trace import Trace

#: Files given at one poll: what was read waits in memory for the detectors.
MOST_FILES = 4


class FilesSource(TelemetrySource):
    """The files of one pattern; see `TelemetrySource`.

    A file that cannot be read is reported once, by the error of a poll, and again when it has changed.
    """

    kind = "files"

    def __init__(self, settings: FilesSettings, shard: Shard = WHOLE) -> None:
        self.name = settings.path
        self.interval_s = settings.interval
        self._settings = settings
        self._shard = shard
        self._seen: dict[Path, tuple[int, int]] = {}  # size and time of change (ns) of what was read
        self._failures: list[str] = []
        self._newest: dict[tuple[Path, str], float] = {}  # a file's GPU -> time of its newest row given

    def poll(self) -> Sequence[Rows]:
        """Give a few files that are new or have changed; see `TelemetrySource`."""
        if self._failures:  # next to them the last poll could give rows
            raise self._pop_failures()
        fresh: list[Rows] = []
        names = sorted(glob.glob(self._settings.path, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute pattern)
        for path in map(Path, filter(self._shard.has, names)):
            if len(fresh) + len(self._failures) >= MOST_FILES:
                break
            try:
                stat = path.stat()
                if not path.is_file() or self._seen.get(path) == (stat.st_size, stat.st_mtime_ns):
                    continue
                self._seen[path] = (stat.st_size, stat.st_mtime_ns)
                fresh += self._read(path, time.time() - stat.st_mtime)
            except (InputError, OSError) as error:
                self._failures.append(str(error))
        for path in self._seen.keys() - set(map(Path, names)):
            del self._seen[path]
        if self._failures and not fresh:
            raise self._pop_failures()
        return fresh

    def _pop_failures(self) -> TelemetryError:
        failures, self._failures = self._failures, []
        return TelemetryError("; ".join(failures))

    def _read(self, path: Path, age_s: float) -> list[Rows]:
        # pandas and pyarrow: only where files are read.
        from epochcast.analyzer.traces.trace import check_telemetry, read_traces

        traces = [check_telemetry(trace, path.name) for trace in read_traces(path)]
        return [rows for trace in traces if (rows := self._give(trace, path, len(traces), age_s)) is not None]

    def _give(self, trace: Trace, path: Path, gpus: int, age_s: float) -> Rows | None:
        label = path.stem if gpus == 1 else f"{path.stem} {trace.label}"
        times = trace.time
        kept = times > self._newest.get((path, label), -np.inf)
        if not kept.any():
            return None
        self._newest[path, label] = float(times[-1])
        device = GpuDevice(
            uuid=trace.uuid or f"file-{label}",
            label=label,
            name=trace.gpu or "unknown",
            node=socket.gethostname(),
            source=trace.source or "files",
            simulated=trace.simulated,
            static=dict(trace.static),
            **self._settings.rented,
        )
        step_s = round(float(np.median(np.diff(times))), 6) if times.size > 1 else 0.1
        values = {name: column[kept] for name, column in trace.metrics().items() if not np.isnan(column[kept]).all()}
        return Rows(device, times[kept], values, 1 / step_s if step_s > 0 else 10.0, ended=age_s > ENDED_S)
