"""Plays the recordings in ``traces/`` for ever; all are simulated telemetry, made by the script in their metadata.

`DemoSource` plays them as the jobs of ``epochcast serve --demo``: ten GPUs, read by the service's watcher like any other
source. What is played follows from the clock, so that a watcher that starts again sees the same jobs go on.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from epochcast.analyzer.telemetry import Rows, TelemetrySource
from epochcast.analyzer.telemetry.gpu_report import GpuDevice, Owner
from epochcast.analyzer.telemetry.settings import DemoSettings
from epochcast.analyzer.telemetry.shard import WHOLE, Shard
from epochcast.analyzer.traces.trace import PARQUET_KEY, Trace, trace_of_table

TRACES = Path(__file__).parent / "traces"
_HERTZ = 10


@cache
def read_recording(name: str) -> tuple[Trace, Sequence[int]]:
    """Telemetry of a GPU in `TRACES`, 10 rows a second, and the row of each epoch's beginning.

    It has a pause, then epochs (or some steps together) that can follow each other.
    """
    table = pq.read_table(TRACES / f"{name}.parquet")
    trace = trace_of_table(table, name)
    assert trace.simulated
    return trace, json.loads(table.schema.metadata[PARQUET_KEY])["begins"]


@dataclass(frozen=True)
class DemoJobs:
    """Jobs on the same GPUs, one after another: each works for ``work_s``, and the next begins ``rest_s`` later.

    Each plays ``RECORDING_0``, ``RECORDING_1``, … on a GPU of each of the ``nodes``, which are of ``place`` (instance, cloud,
    region). The first has worked for ``age_s`` when the demo begins; a start gives ``history_s`` of the past at once. Where it
    ``holds``, the process stays after its work, and the GPU's memory with it.
    """

    recording: str
    nodes: tuple[str, ...]
    place: tuple[str, str, str]
    work_s: float
    rest_s: float
    age_s: float
    holds: bool = False
    history_s: float = 300.0


JOBS = (
    DemoJobs("a10g", ("demo1",) * 4, ("g5.12xlarge", "aws", "us-east-1"), 2700.0, 90.0, 280.0),
    DemoJobs("a100", ("demo2", "demo3"), ("a2-highgpu-1g", "gcp", "us-central1"), 3600.0, 120.0, 290.0),
    DemoJobs("h100", ("demo4", "demo5"), ("p5.4xlarge", "aws", "us-east-1"), 3000.0, 60.0, 595.0, history_s=600.0),
    DemoJobs("v100", ("demo6",), ("p3.2xlarge", "aws", "us-east-1"), 900.0, 120.0, 290.0),
    DemoJobs("t4", ("demo7",), ("g4dn.xlarge", "aws", "us-east-1"), 240.0, 1200.0, 290.0, holds=True),
)


class DemoSource(TelemetrySource):
    """The GPUs of `JOBS`; see `TelemetrySource`."""

    kind = "simulated"
    name = "demo"
    interval_s = 2.0

    def __init__(self, settings: DemoSettings, shard: Shard = WHOLE) -> None:
        self._began, self._given_until = settings.began, -math.inf

    def poll(self) -> Sequence[Rows]:
        """Give what is new; see `TelemetrySource`."""
        now = time.time()
        since, self._given_until = self._given_until, now
        places = [(number, place) for number, jobs in enumerate(JOBS) for place in range(len(jobs.nodes))]
        return [rows for gpu in places for rows in _between(self._began, *gpu, since, now)]


def _between(began: float, number: int, place: int, since: float, until: float) -> Iterator[Rows]:
    """A GPU's rows later than ``since`` and not later than ``until`` [unix s], apart for each job and the rest after it."""
    jobs, device = JOBS[number], _device(number, place)
    length_s, first, since = jobs.work_s + jobs.rest_s, began - jobs.age_s, max(since, until - jobs.history_s)
    for turn in range(math.floor((since - first) / length_s), math.floor((until - first) / length_s) + 1):
        values, begin = _played(number, place, turn), first + turn * length_s
        times = begin + np.arange(1, values["power"].size + 1) / _HERTZ
        ends = begin + (length_s if jobs.holds else jobs.work_s)
        new = (times > since) & (times <= until)
        job = len(JOBS) * (int(begin) // 60 % 100_000) + number  # of its own in a state that is kept, too
        owner = Owner(job % 30_000 + 2000, "python", "ada", slurm_job=str(job))
        for part, owners in ((new & (times <= ends), (owner,)), (new & (times > ends), ())):
            if part.any():
                yield Rows(device, times[part], {name: column[part] for name, column in values.items()}, _HERTZ, owners)


@lru_cache(maxsize=10)  # the job of now on each GPU
def _played(number: int, place: int, turn: int) -> Mapping[str, NDArray[np.float64]]:
    """A job and the pause after it; ``turn`` counts those on the same GPUs.

    Its epochs come in an order drawn by chance, as a whole repeated part would be a cycle of its own.
    """
    jobs, turn = JOBS[number], turn + 1  # a history may begin before turn 0
    work_rows, rest_rows = round(jobs.work_s * _HERTZ), round(jobs.rest_s * _HERTZ)
    trace, begins = read_recording(f"{jobs.recording}_{place}")
    columns = trace.metrics()
    rest, *parts = np.split(np.arange(len(trace.time)), begins)
    order = np.random.default_rng([number, turn]).integers(len(parts), size=work_rows // min(map(len, parts)) + 1)
    rows = np.concatenate([np.concatenate([parts[part] for part in order])[:work_rows], np.resize(rest, rest_rows)])
    values = {name: column[rows] for name, column in columns.items()}
    steps = np.diff(columns["energy"], prepend=0)  # of a counter, which goes on from part to part
    steps[[0, begins[0]]] = steps[[1, begins[0] + 1]]
    values["energy"] = turn * rows.size * steps.max() + np.cumsum(steps[rows])  # no job begins below the end of the last
    return values


def _device(number: int, place: int) -> GpuDevice:
    jobs, node = JOBS[number], JOBS[number].nodes[place]
    label, (instance, cloud, region) = str(jobs.nodes[:place].count(node)), jobs.place
    rented = GpuDevice("", "", "", "", "simulator", simulated=True, instance=instance, cloud=cloud, region=region)
    gpu = read_recording(f"{jobs.recording}_{place}")[0].gpu or ""
    return replace(rented, uuid=f"GPU-{node}-{label}", label=label, name=gpu, node=node)
