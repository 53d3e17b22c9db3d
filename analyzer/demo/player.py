"""Plays the recordings in ``traces/`` for ever; all are simulated telemetry, made by the script in their metadata.

`DemoSource` plays them as the jobs of ``epochcast serve --demo``: ten GPUs, read by the service's watcher like any other
source. On each set of GPUs one job follows another. What is played follows from the clock, so that nothing is held of the past
or of the days to come, and a watcher that starts again sees the same jobs go on.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from epochcast.analyzer.telemetry import Rows
from epochcast.analyzer.telemetry.gpu_report import GpuDevice, Owner
from epochcast.analyzer.telemetry.settings import DemoSettings
from epochcast.analyzer.telemetry.shard import WHOLE, Shard
from epochcast.analyzer.traces.trace import PARQUET_KEY, trace_of_table

TRACES = Path(__file__).parent / "traces"
_HERTZ = 10
_COUNTERS = ("energy",)  # go on where a part ends and another begins


@dataclass(frozen=True)
class Recording:
    """Telemetry of a GPU, 10 rows a second: a pause, then epochs (or some steps together) that can follow each other.

    ``columns``: metric of the catalogue -> (n,) base units; ``begins``: the row of each epoch's beginning.
    """

    gpu: str
    columns: Mapping[str, NDArray[np.float64]]
    begins: Sequence[int]

    @classmethod
    @cache
    def read(cls, name: str) -> Recording:
        """One of those in `TRACES` that are made of parts."""
        table = pq.read_table(TRACES / f"{name}.parquet")
        trace = trace_of_table(table, name)
        assert trace.simulated and trace.gpu is not None
        return cls(trace.gpu, trace.metrics(), json.loads(table.schema.metadata[PARQUET_KEY])["begins"])

    def played(self, work_rows: int, rest_rows: int, job: int, turn: int) -> dict[str, NDArray[np.float64]]:
        """A job of so many rows and the pause after it; ``turn`` counts those on the same GPUs.

        Its epochs come in an order drawn by chance, as a whole repeated part would be a cycle of its own.
        """
        rest, *parts = np.split(np.arange(len(next(iter(self.columns.values())))), self.begins)
        order = np.random.default_rng([job, turn]).integers(len(parts), size=work_rows // min(map(len, parts)) + 1)
        rows = np.concatenate([np.concatenate([parts[part] for part in order])[:work_rows], np.resize(rest, rest_rows)])
        values = {name: column[rows] for name, column in self.columns.items()}
        for name in _COUNTERS:
            steps = np.diff(self.columns[name], prepend=0)
            steps[[0, self.begins[0]]] = steps[[1, self.begins[0] + 1]]
            values[name] = turn * rows.size * steps.max() + np.cumsum(steps[rows])  # no job begins below the end of the last
        return values


@dataclass(frozen=True)
class DemoJobs:
    """Jobs on the same GPUs, one after another.

    Attributes:
        recording: what each of them plays, ``NAME_0``, ``NAME_1``, …
        nodes: the node of each GPU.
        place: instance, cloud, region of each node, as in the price table.
        work_s, rest_s: how long a job works, and until the next one begins.
        age_s: how long the first job has worked when the demo begins.
        holds: the process stays after its work, and holds the GPU's memory until the next job.
        history_s: of the past that a start gives, at once: enough for an answer, little enough for a busy machine.
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


class DemoSource:
    """The GPUs of `JOBS`; see `TelemetrySource`."""

    kind = "simulated"
    name = "demo"
    interval_s = 2.0
    problems = ()
    clock_offset_s = None

    def __init__(self, settings: DemoSettings, shard: Shard = WHOLE) -> None:
        self._gpus = [
            _Gpu(settings.began, number, place) for number, jobs in enumerate(JOBS) for place in range(len(jobs.nodes))
        ]
        self._given_until = -math.inf

    def close(self) -> None:
        """Do nothing: there is nothing to let go of."""

    def poll(self) -> Sequence[Rows]:
        """Give what is new; see `TelemetrySource`."""
        now = time.time()
        since, self._given_until = self._given_until, now
        return [rows for gpu in self._gpus for rows in gpu.between(since, now)]


class _Gpu:
    """One GPU of one of the `JOBS`; it holds the telemetry of the job of now."""

    def __init__(self, began: float, number: int, place: int) -> None:
        jobs, node = JOBS[number], JOBS[number].nodes[place]
        self._jobs, self._number, self._first = jobs, number, began - jobs.age_s
        self._recording = Recording.read(f"{jobs.recording}_{place}")
        self._turn: int | None = None
        self._values: Mapping[str, NDArray[np.float64]] = {}
        label = str(jobs.nodes[:place].count(node))
        instance, cloud, region = jobs.place
        self._device = GpuDevice(
            f"GPU-{node}-{label}",
            label,
            self._recording.gpu,
            node,
            "simulator",
            simulated=True,
            instance=instance,
            cloud=cloud,
            region=region,
        )

    def between(self, since: float, until: float) -> Iterator[Rows]:
        """Its rows later than ``since`` and not later than ``until`` [unix s], apart for each job and the rest after it."""
        jobs, since = self._jobs, max(since, until - self._jobs.history_s)
        length_s = jobs.work_s + jobs.rest_s
        for turn in range(math.floor((since - self._first) / length_s), math.floor((until - self._first) / length_s) + 1):
            values, begin = self._played(turn), self._first + turn * length_s
            times = begin + np.arange(1, values["power"].size + 1) / _HERTZ
            ends = begin + (length_s if jobs.holds else jobs.work_s)
            new = (times > since) & (times <= until)
            number = len(JOBS) * (int(begin) // 60 % 100_000) + self._number  # of its own in a state that is kept, too
            owner = Owner(number % 30_000 + 2000, "python", "ada", slurm_job=str(number))
            for part, owners in ((new & (times <= ends), (owner,)), (new & (times > ends), ())):
                if part.any():
                    own = {name: column[part] for name, column in values.items()}
                    yield Rows(self._device, times[part], own, _HERTZ, owners)

    def _played(self, turn: int) -> Mapping[str, NDArray[np.float64]]:
        """The telemetry of a job and of the rest after it."""
        if turn != self._turn:
            work, rest = round(self._jobs.work_s * _HERTZ), round(self._jobs.rest_s * _HERTZ)
            self._turn = turn
            self._values = self._recording.played(work, rest, self._number, turn + 1)  # a history may begin before turn 0
        return self._values
