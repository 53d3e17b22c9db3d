"""The jobs of ``epochcast serve --demo``: ten simulated GPUs, read by the service's watcher like any other source of telemetry.

On each set of GPUs one job follows another for ever. A job is drawn whole when its time comes, so that nothing is held of the
past or of the days to come; the clock and the job's place in the row are its seed, so that a watcher that starts again sees
the same jobs go on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.fleet.simulated.gpu_trace import readings
from epochcast.analyzer.fleet.simulated.job_timelines import JobDrawn, window
from epochcast.analyzer.telemetry import Rows
from epochcast.analyzer.telemetry.gpu_report import GpuDevice, Owner
from epochcast.analyzer.telemetry.settings import DemoSettings
from epochcast.analyzer.telemetry.shard import WHOLE, Shard
from epochcast.detector.simulator.devices import DEVICES, SimulatedDevice
from epochcast.detector.simulator.draws import draw_training
from epochcast.detector.simulator.other_jobs import accumulated_steps
from epochcast.detector.simulator.scenario import RecordingFaults
from epochcast.detector.simulator.telemetry import Noise
from epochcast.detector.simulator.timeline import Phase, SimulatedTimeline, join, pause
from epochcast.detector.simulator.training import train
from epochcast.detector.simulator.workload import draw

HISTORY_S = 600.0
"""Of the past that a start gives, at once: 6,000 rows a GPU, enough for the answers to every job of the table below. A day
of it would take the watcher minutes."""

_HERTZ = 10.0
_STEP_SHARES = (0.05, 0.05, 0.30, 0.50, 0.10)
_SETUP_S = 8.0
_NOISE = Noise(drift=0.004)


@dataclass(frozen=True)
class DemoJobs:
    """Jobs on the same GPUs, one after another.

    Attributes:
        device: which GPUs.
        nodes: the node of each GPU.
        place: instance, cloud, region of each node, as in the price table.
        epoch_s: of a job's epochs; None: a language model's training, of steps and checkpoints.
        work_s, rest_s: how long a job works, and until the next one begins.
        age_s: how long the first job has worked when the demo begins.
        slow_clock: of the last GPU, relative to the others, for which no GPU waits.
        holds: the process stays after its work, and holds the GPU's memory until the next job.
    """

    device: str
    nodes: tuple[str, ...]
    place: tuple[str, str, str]
    epoch_s: float | None
    work_s: float
    rest_s: float
    age_s: float
    slow_clock: float = 1.0
    holds: bool = False


JOBS = (
    DemoJobs("NVIDIA A10G", ("demo1",) * 4, ("g5.12xlarge", "aws", "us-east-1"), 31.0, 2700.0, 90.0, 580.0, slow_clock=0.85),
    DemoJobs("NVIDIA A100-SXM4-40GB", ("demo2", "demo3"), ("a2-highgpu-1g", "gcp", "us-central1"), 47.0, 3600.0, 120.0, 590.0),
    DemoJobs("NVIDIA H100 80GB HBM3", ("demo4", "demo5"), ("p5.4xlarge", "aws", "us-east-1"), None, 3000.0, 60.0, 595.0),
    DemoJobs("Tesla V100-SXM2-16GB", ("demo6",), ("p3.2xlarge", "aws", "us-east-1"), 22.0, 900.0, 120.0, 590.0),
    DemoJobs("Tesla T4", ("demo7",), ("g4dn.xlarge", "aws", "us-east-1"), 15.0, 240.0, 1200.0, 590.0, holds=True),
)


class DemoSource:
    """The GPUs of `JOBS`; see `TelemetrySource`."""

    kind = "simulated"
    name = "demo"
    interval_s = 2.0
    problems = ()
    clock_offset_s = None

    def __init__(self, settings: DemoSettings, shard: Shard = WHOLE) -> None:
        self._began = settings.began
        self._gpus = [_Gpu(self._began, number, place) for number, jobs in enumerate(JOBS) for place in range(len(jobs.nodes))]
        self._given_until = -math.inf

    def close(self) -> None:
        """Do nothing: there is nothing to let go of."""

    def poll(self) -> Sequence[Rows]:
        """Give what is new; see `TelemetrySource`."""
        now = time.time()
        since, self._given_until = max(self._given_until, now - HISTORY_S), now
        return [rows for gpu in self._gpus for rows in gpu.between(since, now)]


class _Gpu:
    """One GPU; it holds the telemetry of the job of now."""

    def __init__(self, began: float, number: int, place: int) -> None:
        self._jobs = JOBS[number]
        self._number, self._place = number, place
        self._first = began - self._jobs.age_s
        self._shift: int | None = None
        self._time: NDArray[np.float64] = np.empty(0)
        self._values: Mapping[str, NDArray[np.floating]] = {}
        node = self._jobs.nodes[place]
        label = str(self._jobs.nodes[:place].count(node))
        instance, cloud, region = self._jobs.place
        self._device = GpuDevice(
            f"GPU-{node}-{label}",
            label,
            self._jobs.device,
            node,
            "simulator",
            simulated=True,
            instance=instance,
            cloud=cloud,
            region=region,
        )

    def between(self, since: float, until: float) -> Iterator[Rows]:
        """Its rows later than ``since`` and not later than ``until`` [unix s], apart for each job and the rest after it."""
        jobs = self._jobs
        length_s = jobs.work_s + jobs.rest_s
        for shift in range(math.floor((since - self._first) / length_s), math.floor((until - self._first) / length_s) + 1):
            self._draw(shift)
            begin = self._first + shift * length_s
            ends = begin + (length_s if jobs.holds else jobs.work_s)
            new = (self._time > since) & (self._time <= until)
            number = len(JOBS) * (int(begin) // 60 % 100_000) + self._number  # of its own in a state that is kept, too
            owner = Owner(number % 30_000 + 2000, "python", "ada", slurm_job=str(number))
            for part, owners in ((new & (self._time <= ends), (owner,)), (new & (self._time > ends), ())):
                if part.any():
                    values = {name: column[part].astype(np.float64) for name, column in self._values.items()}
                    yield Rows(self._device, self._time[part], values, _HERTZ, owners)

    def _draw(self, shift: int) -> None:
        """Make the telemetry of a job and of the rest after it, if it is not that which is held."""
        if shift == self._shift:
            return
        jobs, length_s = self._jobs, self._jobs.work_s + self._jobs.rest_s
        device = next(device for device in DEVICES if device.name == jobs.device)
        of_job = np.random.default_rng([self._number, shift + 1])  # a history may begin in the job before the first
        job = _drawn(jobs, device, of_job)
        slow = self._place == len(jobs.nodes) - 1 and jobs.slow_clock < 1
        timeline = window(job.timeline.slowed(0, math.inf, jobs.slow_clock), 0, jobs.work_s) if slow else job.timeline
        if jobs.holds:
            timeline = join(timeline, pause(Phase.WAIT, jobs.rest_s))
        since, values = readings(
            device,
            [(job, timeline)],
            length_s,
            np.random.default_rng([self._number, shift + 1, self._place]),
            exchanges=len(jobs.nodes) > 1,
            silent=False,
            recording=RecordingFaults(),
        )
        values["energy"] = values["energy"] + (shift + 1) * length_s * device.power_limit_w  # a counter does not go back
        self._shift, self._time, self._values = shift, self._first + shift * length_s + since, values


def _drawn(jobs: DemoJobs, device: SimulatedDevice, rng: np.random.Generator) -> JobDrawn:
    """A job of its own speed and habits."""
    step = _STEP_SHARES
    if jobs.epoch_s is None:
        parts = [accumulated_steps(1.1 * jobs.work_s, rng, micro_s=0.4, accumulation=2)]
    else:
        plan = draw_training(
            rng, epochs=math.ceil(jobs.work_s / jobs.epoch_s) + 1, epoch_s=jobs.epoch_s, validation=0.12, gap_s=0.5, hiccup=0.0
        )
        step, parts = plan.step, [train(plan, rng)]
    timeline: SimulatedTimeline = window(join(pause(Phase.SETUP, _SETUP_S), *parts), 0, jobs.work_s)
    return JobDrawn("training", timeline, draw(device, step, 0.4, rng), _NOISE, jobs.slow_clock, None)
