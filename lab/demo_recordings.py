"""Make the recordings that `epochcast demo` and `epochcast serve --demo` play: simulated telemetry, no hardware was read.

    python -m lab.demo_recordings    # writes analyzer/demo/traces/, the same bytes each time

``t4_training`` is whole, with its true epochs next to it. The others are a pause of the GPU and then some epochs of a job, or
some steps together, which can be played in any order: ``begins`` names the rows in which they begin. The metadata of each file
names this script, the seed, and that it is simulated.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from epochcast.analyzer.traces.trace import PARQUET_KEY, Trace
from lab.simulated_fleet.gpu_trace import readings
from lab.simulated_fleet.job_timelines import JobDrawn
from lab.simulator import simulate
from lab.simulator.devices import DEVICES
from lab.simulator.draws import draw_training
from lab.simulator.other_jobs import accumulated_steps
from lab.simulator.scenario import RecordingFaults
from lab.simulator.telemetry import Noise
from lab.simulator.timeline import TICK_S, Phase, SimulatedTimeline, join, pause
from lab.simulator.training import train
from lab.simulator.workload import draw

OUT = Path(__file__).resolve().parent.parent / "analyzer" / "demo" / "traces"
START = 1_800_000_000.0

_PAUSE_S = 6.0
_WARM_S = 100.0  # of the job, before the part that is kept: the GPU is as warm as it gets, the first epoch is over
_STEP_SHARES = (0.05, 0.05, 0.30, 0.50, 0.10)
_NOISE = Noise(drift=0.004)
_STEPS = 24  # that stay together
_DIGITS = 3  # significant ones that are kept of the recordings in parts


@dataclass(frozen=True)
class DemoJob:
    """A job on GPUs of one kind.

    Attributes:
        device: which GPUs.
        gpus: how many of them are recorded.
        epoch_s: of its epochs; None: a language model's training, of steps.
        kept_s: about how much of it is kept.
        slow_clock: of the last GPU, relative to the others, for which no GPU waits.
        holds: in the pause a process is there and holds the GPU's memory.
    """

    device: str
    gpus: int
    epoch_s: float | None
    kept_s: float
    slow_clock: float = 1.0
    holds: bool = False


JOBS = {
    "a10g": DemoJob("NVIDIA A10G", 4, 31.0, 150.0, slow_clock=0.85),
    "a100": DemoJob("NVIDIA A100-SXM4-40GB", 2, 47.0, 190.0),
    "h100": DemoJob("NVIDIA H100 80GB HBM3", 2, None, 120.0),
    "v100": DemoJob("Tesla V100-SXM2-16GB", 1, 22.0, 110.0),
    "t4": DemoJob("Tesla T4", 1, 15.0, 75.0, holds=True),
}
TRAINING_SEED = 7
"""Of the whole training, `epochcast demo`'s."""


def main() -> None:
    """Write all recordings."""
    OUT.mkdir(exist_ok=True)
    made = simulate(TRAINING_SEED)
    frame = pd.DataFrame({"time": made.time, **{name: _compact(name, column) for name, column in made.metrics.items()}})
    _write("t4_training", frame, made.gpu, TRAINING_SEED)
    labels = {"simulated": True, **made.labels()}
    (OUT / "t4_training.json").write_text(json.dumps(labels, indent=1) + "\n", encoding="utf-8")
    for seed, (name, job) in enumerate(JOBS.items(), start=1):
        for gpu in range(job.gpus):
            frame, begins = _parts(job, seed, gpu)
            _write(f"{name}_{gpu}", frame, job.device, seed, begins=begins)


def _parts(job: DemoJob, seed: int, gpu: int) -> tuple[pd.DataFrame, list[int]]:
    """A pause and the part of the job that is kept, as this GPU shows them, and the rows in which its parts begin."""
    device = next(device for device in DEVICES if device.name == job.device)
    rng = np.random.default_rng(seed)  # the job's, the same on all of its GPUs
    seconds, step = 2 * _WARM_S + 2 * job.kept_s, _STEP_SHARES
    if job.epoch_s is None:
        timeline = accumulated_steps(seconds, rng, micro_s=0.4, accumulation=2)
        marks = _begins(timeline)[timeline.phases == Phase.UPDATE][::_STEPS]
    else:
        epochs = math.ceil(seconds / job.epoch_s)
        plan = draw_training(rng, epochs=epochs, epoch_s=job.epoch_s, validation=0.12, gap_s=0.5, hiccup=0.0)
        step, timeline = plan.step, train(plan, rng)
        marks = timeline.marks()[0]
    workload = draw(device, step, 0.4, rng)
    slow = job.slow_clock if gpu == job.gpus - 1 else 1.0
    if slow < 1:
        timeline = timeline.slowed(0, math.inf, slow)
        marks = timeline.marks()[0]
    first = int(np.searchsorted(marks, _WARM_S))
    last = int(np.searchsorted(marks, marks[first] + job.kept_s))
    parked = pause(Phase.WAIT if job.holds else Phase.PARKED, _PAUSE_S)
    _, values = readings(
        device,
        [(JobDrawn("training", timeline, workload, _NOISE, slow, None), join(parked, timeline))],
        _PAUSE_S + marks[last] + 1,
        np.random.default_rng([seed, gpu]),
        exchanges=job.gpus > 1,
        silent=False,
        recording=RecordingFaults(),
    )
    pause_rows = round(_PAUSE_S / TICK_S)
    begin, *inner, end = np.round((_PAUSE_S + marks[first : last + 1]) / TICK_S).astype(int)
    kept = np.r_[:pause_rows, begin:end]
    begins = [pause_rows, *(int(row - begin) + pause_rows for row in inner)]
    columns = {name: _compact(name, column[kept], _DIGITS) for name, column in values.items()}
    return pd.DataFrame({"time": START + TICK_S * np.arange(1, kept.size + 1), **columns}), begins


def _begins(timeline: SimulatedTimeline) -> NDArray[np.float64]:
    return np.cumsum(timeline.seconds) - timeline.seconds


def _compact(name: str, values: NDArray[np.floating], digits: int | None = None) -> NDArray[np.floating]:
    """What the agent keeps of a metric: a counter's digits, and of others a float32, of ``digits`` significant digits."""
    if name == "energy":
        return values if digits is None else np.round(values)
    if digits is not None:
        with np.errstate(divide="ignore"):
            decimals = digits - 1 - np.floor(np.log10(np.abs(values)))
        scale = np.power(10.0, np.where(np.isfinite(decimals), decimals, 0))
        values = np.round(values * scale) / scale
    return values.astype(np.float32)


def _write(name: str, frame: pd.DataFrame, gpu: str, seed: int, **more: list[int]) -> None:
    facts = Trace(frame, gpu, source="simulator", simulated=True).metadata()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    about = {**facts, "made_by": "python -m lab.demo_recordings", "seed": seed, **more}
    pq.write_table(
        table.replace_schema_metadata({PARQUET_KEY: json.dumps(about).encode()}),
        OUT / f"{name}.parquet",
        compression="zstd",
        compression_level=19,
        row_group_size=len(frame),
    )


if __name__ == "__main__":
    main()
