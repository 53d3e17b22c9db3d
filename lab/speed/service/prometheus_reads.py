"""What reading every 10 Hz sample of GPUs back from a Prometheus costs the reader: CPU per second of telemetry.

    OMP_NUM_THREADS=1 python -m lab.speed.service.prometheus_reads [--gpus 16] [--seconds 60]

A real Prometheus holds all metrics that the agent has of a GPU, random values at 10 Hz. The service's source reads them in
pieces of five seconds, as it does in life, but as fast as it can. The CPU time is that of this process (HTTP, JSON, arrays);
detection is not in it, nor is Prometheus'.
"""

import argparse
import resource
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np

from epochcast.analyzer.telemetry import prometheus
from epochcast.analyzer.telemetry.settings import PrometheusSettings
from epochcast.analyzer.traces.columns import WRITTEN
from lab.speed.processes import prometheus as running_prometheus

POLL_S = 5.0
HERTZ = 10
NAMES = [name for name in WRITTEN if name.startswith("epochcast_gpu_")]


def write_past(gpus: int, seconds: float, file: TextIO) -> None:
    """Write the samples of the last ``seconds``."""
    rng, begin = np.random.default_rng(0), time.time() - seconds - 5
    for gpu in range(gpus):
        labels = f'gpu="{gpu}",uuid="GPU-{gpu}",name="Tesla T4",instance="node-{gpu // 8}",job="epochcast-agent"'
        for name in NAMES:
            for row, value in enumerate(rng.random(round(seconds * HERTZ)).round(4).tolist()):
                file.write(f"{name}{{{labels}}} {value} {begin + row / HERTZ:.3f}\n")


def main() -> None:
    """Measure, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    # Pieces as long as the pause between two polls, as they are once the past has been read.
    prometheus.FIRST_SPAN_S = prometheus.SHORTEST_SPAN_S = POLL_S
    prometheus.MOST_SAMPLES = round(POLL_S * HERTZ * len(NAMES))
    samples, most = 0, options.gpus * len(NAMES) * options.seconds * HERTZ
    past = partial(write_past, options.gpus, options.seconds)
    with tempfile.TemporaryDirectory() as folder, running_prometheus(Path(folder), write=past) as database:
        source = prometheus.PrometheusSource(PrometheusSettings(url=database.url, history=options.seconds + 60, lag=0.0))
        began, before = time.monotonic(), time.process_time()
        while samples < 0.95 * most:
            samples += sum(one.time.size * len(one.values) for one in source.poll())
        cpu, wall = time.process_time() - before, time.monotonic() - began
    share = cpu / options.seconds / options.gpus
    print(
        f"{samples} samples of {options.gpus} GPUs x {len(NAMES)} metrics x {options.seconds:.0f} s: {cpu:.2f} s of CPU, "
        f"{wall:.2f} s of wall; {share:.3%} of a core per GPU, {64 * share:.1%} at 64 GPUs; "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB at most"
    )


if __name__ == "__main__":
    main()
