"""What reading every 10 Hz sample of GPUs back from a Prometheus costs the reader: CPU per second of telemetry.

Run: OMP_NUM_THREADS=1 python -m benchmarks.service.prometheus_reads [--gpus 16] [--seconds 60]

promtool writes the past of a real Prometheus: all metrics that the agent has of a GPU, random values at 10 Hz. The service's
source then reads it in pieces of five seconds, as it does in life, but as fast as it can. The CPU time is that of this process
(HTTP, JSON, arrays); detection is not in it, nor is Prometheus'.
"""

import argparse
import resource
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from epochcast.analyzer.telemetry import TelemetryError, prometheus
from epochcast.analyzer.telemetry.series_names import WRITTEN
from epochcast.analyzer.telemetry.settings import PrometheusSettings

POLL_S = 5.0
HERTZ = 10
NAMES = [name for name in WRITTEN if name.startswith("epochcast_gpu_")]


def write_past(folder: Path, gpus: int, seconds: float, begin: float) -> None:
    """Make the database's blocks."""
    rng = np.random.default_rng(0)
    with (folder / "past.txt").open("w") as file:
        for gpu in range(gpus):
            labels = f'gpu="{gpu}",uuid="GPU-{gpu}",name="Tesla T4",instance="node-{gpu // 8}",job="epochcast-agent"'
            for name in NAMES:
                for row, value in enumerate(rng.random(round(seconds * HERTZ)).round(4).tolist()):
                    file.write(f"{name}{{{labels}}} {value} {begin + row / HERTZ:.3f}\n")
        file.write("# EOF\n")
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(folder / "past.txt"), str(folder / "tsdb")]
    subprocess.run(command, check=True, capture_output=True)


def read(url: str, gpus: int, seconds: float) -> tuple[int, float, float]:
    """Read all of it; return samples, CPU seconds and wall seconds."""
    # Pieces as long as the pause between two polls, as they are once the past has been read.
    prometheus.FIRST_SPAN_S = prometheus.SHORTEST_SPAN_S = POLL_S
    prometheus.MOST_SAMPLES = round(POLL_S * HERTZ * len(NAMES))
    source = prometheus.PrometheusSource(PrometheusSettings(url=url, history=seconds + 60, lag=0.0))
    samples, deadline = 0, time.monotonic() + 30
    began = time.process_time(), time.monotonic()
    while samples < gpus * len(NAMES) * seconds * HERTZ * 0.95:
        try:
            rows = source.poll()
        except TelemetryError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)  # it is starting
            began = time.process_time(), time.monotonic()
            continue
        samples += sum(one.time.size * len(one.values) for one in rows)
    return samples, time.process_time() - began[0], time.monotonic() - began[1]


def main() -> None:
    """Measure, and print one line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0)) as probe:
        folder, port = Path(name), probe.getsockname()[1]
        probe.close()
        write_past(folder, arguments.gpus, arguments.seconds, time.time() - arguments.seconds - 5)
        (folder / "prometheus.yml").write_text("")
        options = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        with subprocess.Popen(
            ["prometheus", *options, f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL
        ) as database:
            try:
                samples, cpu, wall = read(f"http://127.0.0.1:{port}", arguments.gpus, arguments.seconds)
            finally:
                database.terminate()
    share = cpu / arguments.seconds / arguments.gpus
    print(
        f"{samples} samples of {arguments.gpus} GPUs x {len(NAMES)} metrics x {arguments.seconds:.0f} s: {cpu:.2f} s of CPU, "
        f"{wall:.2f} s of wall; {share:.3%} of a core per GPU, {64 * share:.1%} at 64 GPUs; "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB at most"
    )


if __name__ == "__main__":
    main()
