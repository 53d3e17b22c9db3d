"""Writes traces of three simulated GPUs that begin now: a job on two of them, another on the third. No hardware was read."""

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.detector.simulator import SimulatedTrace, simulate

HOURS = 2.0


def job(seed: int, epoch_s: float, now: float) -> SimulatedTrace:
    """A training with epochs of ``epoch_s`` seconds that begins at ``now`` [unix s]."""
    return simulate(seed, epochs=round(HOURS * 3600 / epoch_s), epoch_s=epoch_s, validation_s=epoch_s / 8, start=now)


def seen_by_another(trace: SimulatedTrace, seed: int) -> dict[str, np.ndarray]:
    """The metrics of another GPU of the same job: its own small noise on what is measured."""
    rng = np.random.default_rng(seed)
    noisy = {name: column * rng.normal(1, 0.003, column.size) for name, column in trace.metrics.items() if name != "energy"}
    ratios = [name for name in noisy if name.endswith(("_active", "_occupancy", "_utilization"))]
    return noisy | {name: np.clip(noisy[name], 0, 1) for name in ratios}


def main(folder: Path) -> None:
    """Leave the traces in ``folder``, one file for each GPU, in place of older ones; the agent of its image reads CSV only."""
    now = time.time()
    pair, single = job(1, 20.0, now), job(2, 33.0, now)
    gpus = {"0": (pair, pair.metrics), "1": (pair, seen_by_another(pair, 3)), "2": (single, single.metrics)}
    for number, (trace, metrics) in gpus.items():
        frame = pd.DataFrame({"time": trace.time, **metrics})
        uuid = f"GPU-simulated-{number}"
        write_trace(Trace(frame, trace.gpu, uuid=uuid, source="replay", simulated=True), folder / f"{number}.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
